"""Make a release here: version, changelog, wheel, sdist, commit and tag. Pushes nothing. `python -m tests.release 1.2.0`."""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from email import message_from_bytes
from pathlib import Path

_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_UNRELEASED = "## [Unreleased]"


class ReleaseRefused(Exception):
    """Why no release can be made, and what to do about it."""


def release(root: Path, version: str) -> Path:
    """Make a release of the repository at `root`, and return the directory of its wheel and its sdist.

    Guarantee: after an error the two files that it changes are as they were, and there is no commit and no tag.
    Raises: ReleaseRefused.
    """
    pyproject, changelog = root / "pyproject.toml", root / "CHANGELOG.md"
    _check(root, version)
    project, history = (file.read_text(encoding="utf-8") for file in (pyproject, changelog))
    bumped = _bumped(project, version)
    moved, notes = _moved(history, version)
    made = root / "dist" / version
    try:
        pyproject.write_text(bumped, encoding="utf-8")
        changelog.write_text(moved, encoding="utf-8")
        _run(root, sys.executable, "-m", "hatchling", "build", "-d", str(made))
        _verify(made, version)
        _run(root, "git", "commit", "--quiet", "-m", f"Release {version}", "--", pyproject.name, changelog.name)
    except BaseException:
        pyproject.write_text(project, encoding="utf-8")
        changelog.write_text(history, encoding="utf-8")
        raise
    _run(root, "git", "tag", "--annotate", "--cleanup=verbatim", "-m", f"{version}\n\n{notes}", f"v{version}")
    return made


def _check(root: Path, version: str) -> None:
    if not _SEMVER.fullmatch(version):
        raise ReleaseRefused(f"{version!r} is no version: give three numbers, as in 1.2.0")
    if changed := _run(root, "git", "status", "--porcelain"):
        raise ReleaseRefused(f"these files differ from the last commit, so commit or remove them first:\n{changed}")
    if _run(root, "git", "tag", "--list", f"v{version}"):
        raise ReleaseRefused(f"the tag v{version} exists: give a later version")


def _bumped(project: str, version: str) -> str:
    """Return the text of pyproject.toml with another version. Raises: ReleaseRefused for one that is not later."""
    found = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    if found is None:
        raise ReleaseRefused("pyproject.toml has no line `version = …`")
    if _numbers(version) < _numbers(found[1]):
        raise ReleaseRefused(f"{version} comes before {found[1]}, which pyproject.toml has")
    return f'{project[: found.start()]}version = "{version}"{project[found.end() :]}'


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _moved(history: str, version: str) -> tuple[str, str]:
    """Return the changelog with what is unreleased under a version, and that. Raises: ReleaseRefused."""
    if f"\n## [{version}]" in history:
        raise ReleaseRefused(f"CHANGELOG.md has a section {version}: give a later version")
    before, heading, after = history.partition(f"{_UNRELEASED}\n")
    notes, _, _ = after.partition("\n## [")
    if not heading or not re.search(r"^- ", notes, re.MULTILINE):
        raise ReleaseRefused(f"CHANGELOG.md has nothing under {_UNRELEASED}: write what users notice")
    released = f"## [{version}] - {datetime.now(UTC):%Y-%m-%d}"
    return f"{before}{heading}\n{released}\n{after}", notes.strip()


def _verify(made: Path, version: str) -> None:
    """Refuse artefacts that are not of this version, or that Python cannot import."""
    (wheel,), (sdist,) = made.glob(f"*-{version}-*.whl"), made.glob(f"*-{version}.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        texts = [archive.read(name)]
    with tarfile.open(sdist) as archive_:
        top = sdist.name.removesuffix(".tar.gz")
        members = archive_.getnames()
        information = archive_.extractfile(f"{top}/PKG-INFO")
        texts.append(b"" if information is None else information.read())
    versions = {message_from_bytes(text)["Version"] for text in texts}
    if versions != {version} or f"{top}/CHANGELOG.md" not in members:
        raise ReleaseRefused(f"{made} has versions {versions}, or an sdist without its changelog")
    program = f"import eventlib; assert eventlib.__file__.startswith({str(wheel)!r}), eventlib.__file__"
    _run(made, sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(wheel)!r}); {program}")


def _run(where: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseRefused(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main(arguments: Sequence[str]) -> int:
    """Make the release that was asked for, and say what is left to do."""
    if len(arguments) != 1:
        sys.stderr.write("usage: make release VERSION=1.2.0\n")
        return 2
    (version,) = arguments
    try:
        made = release(Path.cwd(), version)
    except ReleaseRefused as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    sys.stdout.write(f"Release {version} is committed, and tagged v{version}; {made} has its wheel and its sdist.\n")
    sys.stdout.write("Nothing was pushed: `git push --follow-tags`, and upload the two files.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
