"""What a process answers to those who ask whether it lives, how seldom it looks for cycles, and what it lacks outside POSIX."""

import gc
import re
import runpy
import sys
from pathlib import Path

import httpx
import pytest

from eventlib.cli import run
from eventlib.command_line import collect_garbage_seldom
from eventlib.errors import WiringError
from eventlib.ground import posix


async def test_a_process_lives_from_the_start_and_is_ready_when_nothing_is_missing_any_more() -> None:
    from eventlib.telemetry.http import metrics_app

    lacks = "3 tasks are being restored"

    async def exposition() -> bytes:
        return b"figures"

    transport = httpx.ASGITransport(metrics_app(exposition, lambda: lacks))
    async with httpx.AsyncClient(transport=transport, base_url="http://process") as client:
        answers = [await client.get(path) for path in ("/healthz", "/readyz", "/metrics", "/")]
        assert [(answer.status_code, answer.text) for answer in answers[:3]] == [
            (200, "well\n"),
            (503, "3 tasks are being restored\n"),
            (200, "figures"),
        ]
        assert answers[3].status_code == 404
        lacks = ""
        assert (await client.get("/readyz")).status_code == 200


def test_cycles_are_looked_for_seldom_and_not_in_what_is_there_already() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        collect_garbage_seldom(growth=77_000)
        assert gc.get_threshold() == (77_000, 50, 1_000)
        assert gc.get_freeze_count() > frozen
    finally:
        gc.set_threshold(*before)


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
