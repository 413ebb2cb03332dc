"""The compiled core of this working copy: `python -m tests.compiled_core [--remove]`.

It compiles the modules that pyproject.toml names, with the hook that makes the wheels, and leaves each beside its source, which
Python then prefers. What was compiled before is kept in build/core by what it was made of. A machine without a C
compiler goes without: the sources are the same program.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "build" / "core"
STAMP = ROOT / ".venv" / ".compiled"
"""Holds the fingerprint of what was compiled; empty when the core runs from its sources."""
_PACKAGES = "analytics", "eventlib"
_KEPT = 4
"""How many compiled cores are kept: a branch or two, and what is being changed."""


def _hook() -> dict[str, list[str]]:
    """Return how pyproject.toml has the core compiled."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: dict[str, list[str]] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]
    return found


def sources() -> list[Path]:
    """Return the modules that are compiled."""
    return [ROOT / name.lstrip("/") for name in _hook()["include"]]


def compiled(root: Path = ROOT) -> list[Path]:
    """Return the compiled modules that are there, and the library that they share."""
    return [*(each for name in _PACKAGES for each in (root / name).rglob("*.so")), *root.glob("*__mypyc.*.so")]


def fingerprint() -> str:
    """Return what tells one compiled core from another (16 hex digits)."""
    made_of = blake2b(f"{sys.version} {sysconfig.get_platform()} {version('mypy')}".encode(), digest_size=8)
    made_of.update(repr(_hook()).encode())
    for each in sources():
        made_of.update(each.read_bytes())
    return made_of.hexdigest()


def is_stale() -> bool:
    """Tell whether compiled modules are there that are not made of the sources as they are."""
    return bool(compiled()) and (not STAMP.exists() or STAMP.read_text() != fingerprint())


def runs() -> bool:
    """Tell whether this process runs the compiled core."""
    from eventlib.runtime import task

    return not task.__file__.endswith(".py")


def passed_with_sources(file: str, *options: str) -> str:
    """Run a file of tests with the core from its sources, and return what pytest prints."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "tests.pure_core", *options, file]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
    return done.stdout


def remove() -> None:
    """Let the core run from its sources."""
    for each in compiled():
        each.unlink()
    STAMP.unlink(missing_ok=True)


def main() -> None:
    """Compile, or take what was compiled of the same sources."""
    remove()
    kept = CACHE / fingerprint()
    if not kept.exists():
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        if not shutil.which(compiler) or not Path(sysconfig.get_paths()["include"], "Python.h").exists():
            print(
                f"the core is not compiled ({compiler} or Python.h is missing): it runs as Python, and takes more CPU"
            )
            STAMP.write_text("")
            return
        print("compiling the core, about a minute ...", flush=True)
        _compile(kept)
    for each in kept.rglob("*.so"):
        shutil.copy2(each, ROOT / each.relative_to(kept))
    STAMP.write_text(fingerprint())


def _compile(kept: Path) -> None:
    making = kept.with_name("making")
    shutil.rmtree(making, ignore_errors=True)
    # In a copy, since the hook moves pyproject.toml out of the way of mypy while it runs.
    copy = making / "copy"
    for name in _PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "CHANGELOG.md", "LICENSE", "README.md"):
        shutil.copy2(ROOT / name, copy)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(making)]
    environment = {**os.environ, "HATCH_BUILD_HOOK_ENABLE_MYPYC": "1"}
    done = subprocess.run(
        command, cwd=copy, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(
            f"{done.stdout[-4000:]}\nthe core cannot be compiled; `python -m tests.compiled_core --remove` goes without"
        )
    for each in compiled(copy):
        target = making / "core" / each.relative_to(copy)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(each, target)
    (making / "core").rename(kept)
    shutil.rmtree(making)
    for old in sorted(CACHE.iterdir(), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old)


if __name__ == "__main__":
    remove() if "--remove" in sys.argv[1:] else main()
