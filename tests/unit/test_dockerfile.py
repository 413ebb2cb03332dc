"""The images' recipe: pinned, without rights, and made of what is there; what they install is what the lock pins."""

import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.integration.images import needed

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
EXTRAS = {
    "services": {
        *("cli", "console", "http", "identity", "kafka", "kms"),
        *("live", "personal", "postgres", "schemas", "sinks", "telemetry"),
    },
    "spark": {"analytics", "archive", "cli", "kafka", "kms", "personal", "postgres", "s3", "schemas", "telemetry"},
}


def instructions() -> list[tuple[str, str]]:
    joined = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def locked(path: Path) -> dict[str, str]:
    """Return each entry of a lock, with its marker and hashes, by the name and the version."""
    entries = re.findall(
        r"^(\S+)==([^\s;]+)(.*?)(?=^\S|\Z)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return {f"{name}=={version}": " ".join(sorted(re.findall(r"sha256:\w+", rest))) for name, version, rest in entries}


def test_the_linter_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_base_is_pinned_and_there_is_one() -> None:
    stages, bases = set[str](), set[str]()
    for word, rest in instructions():
        if word == "FROM":
            base, _, name = rest.split()
            if base not in stages:
                bases.add(base)
            stages.add(name)
    (base,) = bases
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert {"services", "spark"} <= stages


def test_everything_that_is_copied_is_there_and_let_through() -> None:
    ignored = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = list[str]()
    for word, rest in instructions():
        if word == "COPY" and "--from=" not in rest:
            *sources, _ = shlex.split(rest)
            copied += sources
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(source == each or fnmatch(source, f"{each}/*") for each in let_through), source
    used = {Path(each).parts[0] for each in copied}
    assert {Path(each).parts[0] for each in let_through} == used


def test_no_image_runs_as_root_or_holds_a_secret() -> None:
    users = [rest for word, rest in instructions() if word == "USER"]
    assert users == ["10001:10001"]
    assert {rest for word, rest in instructions() if word == "FROM"} >= {"runtime AS services", "runtime AS spark"}
    assert "ADD" not in {word for word, _ in instructions()}
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert not re.search(r"(?i)password|secret|token|https?://|\bcurl\b|\bwget\b", text)


@pytest.mark.parametrize("name", ["build", *EXTRAS])
def test_what_is_installed_is_a_part_of_the_lock(name: str) -> None:
    whole, part = locked(ROOT / "requirements.lock"), locked(ROOT / "deploy" / "locks" / f"{name}.lock")
    assert part
    assert all(hashes for hashes in part.values())
    assert part.items() <= whole.items(), "run `make lock`"


@pytest.mark.parametrize("name", EXTRAS)
def test_what_is_installed_is_all_that_is_needed(name: str) -> None:
    part = {entry.split("==")[0] for entry in locked(ROOT / "deploy" / "locks" / f"{name}.lock")}
    assert needed(EXTRAS[name]) <= part, "run `make lock`"
    recipe = re.search(
        rf"\$\(PART\)((?: --extra \w+)+)[^\n]*(?:\\\n[^\n]*)?{name}\.lock", (ROOT / "Makefile").read_text()
    )
    assert recipe is not None
    assert {*recipe[1].replace("--extra", "").split()} == EXTRAS[name]
