"""What a contributor and a hosted CI run is what stands in the Makefile, pinned, with tools that the lock has."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventlib.testing import log_contract
from tests.integration.images import needed

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_hosted_ci_calls_the_makefile_and_pinned_actions_alone() -> None:
    steps = [step for job in read(".github/workflows/ci.yml")["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert {"make check", "make test"} <= {*commands}
    for command in commands:
        assert command.removeprefix("make ") in TARGETS, command
    for action in (step["uses"] for step in steps if "uses" in step):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def test_the_demo_installs_what_its_commands_need_at_the_versions_that_are_tested() -> None:
    demo = pins("deploy/locks/demo.lock")
    assert demo.items() <= pins("requirements.lock").items()
    assert needed(["cli", "console"]) <= demo.keys()


def test_hooks_are_the_projects_own_tools() -> None:
    config = read(".pre-commit-config.yaml")
    assert [each["repo"] for each in config["repos"]] == ["local"]
    checked = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    for hook in config["repos"][0]["hooks"]:
        program, *arguments = hook["entry"].split()
        assert hook["language"] == "system"
        assert Path(sys.executable).with_name(Path(program).name).exists(), program
        assert " ".join([Path(program).name, *arguments]).replace(" --force-exclude", "") in checked


def test_the_license_is_the_declared_one() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()


def test_the_changelog_has_a_section_for_the_version_and_one_for_what_comes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    sections = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert version is not None
    assert sections[:2] == ["Unreleased", version[1]]
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {*re.findall(r"^### (.+)", text, re.MULTILINE)} <= kinds


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/postmortems.md"])
def test_what_a_document_refers_to_is_there(name: str) -> None:
    text = (ROOT / name).read_text()
    for place in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / name).parent.joinpath(place).exists(), place
    for path in re.findall(r"`((?:eventlib|tests|deploy|docs|services)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert target in TARGETS, target
    for suite in re.findall(r"`eventlib\.testing\.log_contract\.(\w+)`", text):
        assert hasattr(log_contract, suite)
