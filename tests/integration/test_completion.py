"""Completion in the shells that are installed, as a person uses it: a terminal, a word begun, and the tabulator."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.parked_rates import parked_log
from tests.terminals import Terminal

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(eventlib --show-completion)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -D; source <(eventlib --show-completion)"),
    "fish": (["fish", "--no-config", "-i"], "eventlib --show-completion | source"),
}


@pytest.fixture(params=["bash", *(pytest.param(each, marks=pytest.mark.extended) for each in ("zsh", "fish"))])
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


@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_a_key_that_a_shell_would_run_is_never_completed(tmp_path: Path, shell: str) -> None:
    command, setup = SHELLS[shell]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    ran = tmp_path / "ran"
    hostile = [f"k\\$(touch {ran})", f"k`touch {ran}`", f"k;touch {ran}", "k\ntouch", "k\x1b[31m", "k*", "-k"]
    async with parked_log(tmp_path, [*hostile, "keen"]):
        url, app = f"sqlite:///{tmp_path}/log.db", "tests.console.rates_app:app"
        terminal = Terminal(command, EVENTLIB_LOG=url, EVENTLIB_APP=app, HOME=str(tmp_path))
        try:
            terminal.type(f"{setup}; echo set''up\r")
            assert terminal.shows("setup")
            terminal.type("eventlib parked retry quotes k\t")
            assert terminal.shows("keen"), "the only one that is left"
            terminal.type("\r")
        finally:
            terminal.close()
    assert not ran.exists()
