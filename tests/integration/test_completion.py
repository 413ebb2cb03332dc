"""Completion in the shells that are installed, as a person uses it: a terminal, a word begun, and the tabulator."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(eventlib --show-completion)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -D; source <(eventlib --show-completion)"),
    "fish": (["fish", "--no-config", "-i"], "eventlib --show-completion | source"),
}
_PATIENCE_S = 60.0
_STYLES = re.compile(r"\x1b(\[[0-9;?>]*[A-Za-z]|\(B|\][^\x07]*\x07)")


class Terminal:
    """A shell in a terminal."""

    def __init__(self, arguments: list[str], directory: Path, log: str) -> None:
        environment = {**os.environ, "TERM": "xterm", "EVENTLIB_LOG": log, "EVENTLIB_APP": "services:shop"}
        environment |= {"HOME": str(directory), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self._here, there = pty.openpty()
        command = ["setsid", "--ctty", *arguments]  # a shell completes only at a terminal of its own
        self._shell = subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=environment)
        os.close(there)
        self._printed = ""

    def type(self, text: str) -> None:
        os.write(self._here, text.encode())

    def shows(self, text: str) -> bool:
        """Wait until a text is shown, and forget what was shown before."""
        until = time.monotonic() + _PATIENCE_S
        while text not in self._printed:
            if not select.select([self._here], [], [], max(until - time.monotonic(), 0))[0]:
                return False
            self._printed = _STYLES.sub("", self._printed + os.read(self._here, 65_536).decode(errors="replace"))
        self._printed = self._printed.partition(text)[2]
        return True

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._here)


@pytest.fixture(params=SHELLS)
def terminal(request: pytest.FixtureRequest, tmp_path: Path, filled: str) -> Iterator[Terminal]:
    """A terminal in which completion is set up."""
    arguments, setup = SHELLS[request.param]
    if shutil.which(arguments[0]) is None:
        pytest.skip(f"{arguments[0]} is not installed")
    terminal = Terminal(arguments, tmp_path, filled)
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
