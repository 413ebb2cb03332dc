"""Completion in the shells that are installed, as a person uses it: a terminal, a word begun, and the tabulator."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminals import Terminal

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(eventlib --show-completion)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -D; source <(eventlib --show-completion)"),
    "fish": (["fish", "--no-config", "-i"], "eventlib --show-completion | source"),
}


@pytest.fixture(params=SHELLS)
def terminal(request: pytest.FixtureRequest, tmp_path: Path, filled: str) -> Iterator[Terminal]:
    """A terminal in which completion is set up."""
    command, setup = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    terminal = Terminal(command, EVENTLIB_LOG=filled, EVENTLIB_APP="services:shop", HOME=str(tmp_path))
    try:
        terminal.type(f"{setup}; echo set''up\r")
        assert terminal.shows("setup")
        yield terminal
    finally:
        terminal.close()


def test_the_tabulator_completes_commands_options_and_names(terminal: Terminal) -> None:
    for begun, completed in {
        "eventlib prov": "prove",
        "in": "in-flight",
        "--for": "--format",
        "mark": "markdown",
    }.items():
        terminal.type(f"{begun}\t")
        assert terminal.shows(completed)
    terminal.type("\x15eventlib run --service disp\t")
    assert terminal.shows("dispatch")
    terminal.type("\x15eventlib parked retry payment bro\t")
    assert terminal.shows("broken")
