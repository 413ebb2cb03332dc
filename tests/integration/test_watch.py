"""`eventlib watch` at a terminal and in a pipe."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from tests.terminals import Terminal

SHOP = {"EVENTLIB_APP": "services:shop"}


@pytest.fixture
def terminal(filled: str) -> Iterator[Terminal]:
    terminal = Terminal(["eventlib", "watch", "--every", "0.2"], 60, EVENTLIB_LOG=filled, **SHOP)
    yield terminal
    terminal.close()


def test_it_fits_follows_the_size_and_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    assert terminal.shows("not healthy")
    assert terminal.shows("payment")
    assert terminal.shows("1 effect")
    assert terminal.shows("in flight")
    assert terminal.shows("4 causes, the newest first:")
    assert not terminal.is_as_before()
    terminal.resize(120)
    assert terminal.shows("catches up/s")
    terminal.type("q")
    assert terminal.ended() == 0
    assert terminal.is_as_before()
    shown = terminal.printed
    assert (shown.count("\x1b[?1049h"), shown.count("\x1b[?1049l")) == (1, 1)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "\\u001b" not in shown


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_wider_than_the_terminal(filled: str, width: int) -> None:
    terminal = Terminal(["eventlib", "watch"], width, EVENTLIB_LOG=filled, **SHOP)
    try:
        assert terminal.shows("events/s in the last minute")
        terminal.type("\x03")
        assert terminal.ended() == 130
        assert terminal.is_as_before()
    finally:
        terminal.close()
    screen = next(each for each in terminal.printed.split("\x1b[H") if "events/s" in each)
    lines = Terminal.plain(screen).split("\r\n")
    assert max(map(cell_len, lines)) == width
    assert width < 60 or any(line.startswith("service ") and "parked" in line for line in lines)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_pipe_gets_a_snapshot_after_the_other(filled: str, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "eventlib", "watch", "--every", "0.1", "--log", filled, "--app", "services:shop"]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        if arguments:
            found = [json.loads(watching.stdout.readline()) for _ in range(3)]
            assert [each["healthy"] for each in found] == [False] * 3
            assert found[0]["at"] < found[1]["at"] < found[2]["at"]
            assert found[0]["sagas"]
        else:
            heads = 0
            while heads < 3:
                line = watching.stdout.readline()
                assert line
                assert "\x1b" not in line
                heads += line.endswith("UTC  not healthy\n")
        watching.terminate()
