"""A job shows its steps from its beginning: as lines where there is no terminal, and not beside JSON."""

import time
from io import StringIO

import pytest

from analytics.commands import showing
from analytics.commands.showing import JobProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at_s = [100.0]
    monkeypatch.setattr(showing, "monotonic", lambda: at_s[0])
    return at_s


def test_in_a_pipe_the_first_step_is_a_line_at_once_and_others_are_at_most_one_in_two_seconds(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = JobProgress("reading the log", shown=True)
    assert capsys.readouterr().err == "   0 s  reading the log\n"
    with progress:
        for at_s, step in ((1.9, "table a"), (2, "table b"), (3, "table c"), (64, "table d")):
            clock[0] = 100 + at_s
            progress(step, 1_000, 2_000)
        assert capsys.readouterr().err.splitlines() == [
            "   2 s  table b (1,000 of 2,000)",
            "  64 s  table d (1,000 of 2,000)",
        ]
    progress("nothing after its end")
    assert capsys.readouterr() == ("", "")


def test_a_step_that_takes_long_is_repeated(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = StringIO()  # what capsys has read is lost where a thread writes meanwhile
    monkeypatch.setattr("sys.stderr", seen)
    with JobProgress("starting", shown=True) as progress:
        clock[0] += 11
        until = time.monotonic() + 60
        while "11 s" not in seen.getvalue() and time.monotonic() < until:
            time.sleep(0.05)
        progress("ended")
    assert seen.getvalue() == "   0 s  starting\n  11 s  starting\n"


def test_beside_json_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with JobProgress("starting", shown=False) as progress:
        progress("table a", 1, 2)
    assert capsys.readouterr() == ("", "")
