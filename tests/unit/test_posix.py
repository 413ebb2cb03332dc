"""A system without what POSIX has is named, with what to do about it."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from eventlib.cli import run
from eventlib.errors import WiringError
from eventlib.ground import posix


@pytest.mark.parametrize("module", ["fcntl", "resource"])
def test_what_windows_lacks_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(WiringError, match=rf"no {module}, .* runs on Linux and macOS; on Windows use WSL"):
        runpy.run_path(posix.__file__)


def test_no_other_module_imports_them() -> None:
    root = Path(posix.__file__).parents[2]
    files = [file for package in ("analytics", "eventlib") for file in (root / package).rglob("*.py")]
    imports = re.compile(r"^ *(?:import|from) (?:fcntl|grp|pwd|resource|termios)\b", re.MULTILINE)
    found = [str(file.relative_to(root)) for file in files if imports.search(file.read_text("utf-8"))]
    assert sorted(found) == ["eventlib/ground/posix.py", "eventlib/sql/worker.py"]
    asking = (root / "eventlib" / "sql" / "asking.py").read_text("utf-8")
    assert "\nimport eventlib.ground.posix" in asking, "the worker imports no library: who starts it does"


def test_the_command_says_it_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "eventlib.ground.posix")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert run(["--version"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("eventlib: this system has no fcntl")
    assert (output.out, output.err.count("\n")) == ("", 1)
