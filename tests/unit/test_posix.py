"""A system without what POSIX has is named, with what to do about it."""

import runpy
import sys
from pathlib import Path

import pytest

from eventlib import posix
from eventlib.cli import run
from eventlib.errors import WiringError


def test_what_windows_lacks_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(WiringError, match=r"no fcntl, .* runs on Linux and macOS; on Windows use WSL"):
        runpy.run_path(posix.__file__)


def test_no_other_module_imports_it() -> None:
    root = Path(posix.__file__).parents[1]
    files = [file for package in ("analytics", "eventlib") for file in (root / package).rglob("*.py")]
    assert [file.name for file in files if "\nimport fcntl" in file.read_text("utf-8")] == []


def test_the_command_says_it_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "eventlib.posix")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert run(["--version"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("eventlib: this system has no fcntl")
    assert (output.out, output.err.count("\n")) == ("", 1)
