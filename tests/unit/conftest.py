"""A faulty application in a directory of its own, commands that must fail there, and an environment that sets nothing."""

import os
import sys
from pathlib import Path

import pytest

from eventlib.cli import run
from tests.unit.faulty_app import APP, Refused


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own, with a faulty application in it, and nothing of this project's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EVENTLIB_LOG", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "faulty", raising=False)  # that of another test
    (tmp_path / "faulty.py").write_text(APP)
    (tmp_path / "pyproject.toml").write_text('[tool.eventlib]\napp = "faulty:app"\n')
    return tmp_path


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set in the environment."""
    for variable in [each for each in os.environ if each.startswith(("EVENTLIB_", "SHOP_", "OTEL_"))]:
        monkeypatch.delenv(variable)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that must fail, and return its sentence."""

    def refuse(*arguments: str, code: int = 1) -> str:
        assert run(arguments) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("eventlib: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err.removeprefix("eventlib: ").strip()

    return refuse
