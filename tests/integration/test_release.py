"""A release is made by one command, in a copy of the repository, and refused where it would be a wrong one."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.images import ROOT
from tests.release import ReleaseRefused, release

NOTES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Something.\n\n## [0.1.0]\n\n- The first.\n"


def git(where: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=where, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A repository with the files that a release is made of."""
    place = tmp_path / "repository"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", place], check=True)
    for name, value in (("user.name", "test"), ("user.email", "test@localhost")):
        git(place, "config", name, value)
    (place / "CHANGELOG.md").write_text(NOTES, encoding="utf-8")
    git(place, "commit", "--quiet", "--all", "-m", "Begin")
    return place


@pytest.mark.extended
def test_a_release_has_its_version_everywhere(copied: Path) -> None:
    made = release(copied, "7.2.0")
    assert sorted(file.name for file in made.iterdir()) == [
        "eventlib_sagas-7.2.0-py3-none-any.whl",
        "eventlib_sagas-7.2.0.tar.gz",
    ]
    assert 'version = "7.2.0"' in (copied / "pyproject.toml").read_text(encoding="utf-8")
    changelog = (copied / "CHANGELOG.md").read_text(encoding="utf-8")
    released = r"## \[Unreleased\]\n\n## \[7\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- Something\.\n\n## \[0\.1\.0\]"
    assert re.search(released, changelog)
    assert git(copied, "log", "-1", "--format=%s") == "Release 7.2.0"
    assert git(copied, "cat-file", "-t", "v7.2.0") == "tag"
    assert "### Added\n\n- Something." in git(copied, "tag", "-l", "--format=%(contents)", "v7.2.0")
    assert git(copied, "status", "--porcelain") == ""
    with pytest.raises(ReleaseRefused, match=r"the tag v7\.2\.0 exists"):
        release(copied, "7.2.0")
    with pytest.raises(ReleaseRefused, match="nothing under"):
        release(copied, "7.3.0")
    with pytest.raises(ReleaseRefused, match=r"comes before 7\.2\.0"):
        release(copied, "7.1.9")


@pytest.mark.extended
def test_what_would_be_a_wrong_release_is_refused_and_changes_nothing(copied: Path) -> None:
    with pytest.raises(ReleaseRefused, match="three numbers"):
        release(copied, "7.2")
    with pytest.raises(ReleaseRefused, match=r"comes before|has a section"):
        release(copied, "0.1.0")
    (copied / "new.txt").touch()
    with pytest.raises(ReleaseRefused, match=r"commit or remove them first:\n\?\? new\.txt"):
        release(copied, "7.2.0")
    (copied / "new.txt").unlink()
    (copied / "eventlib" / "__init__.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")
    git(copied, "commit", "--quiet", "--all", "-m", "Break it")
    with pytest.raises(ReleaseRefused, match="broken"):
        release(copied, "7.2.0")
    assert git(copied, "status", "--porcelain") == ""
    assert git(copied, "tag") == ""
