"""A terminal in which a command runs, and a person types."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PATIENCE_S = 60.0
_STYLES = re.compile(r"\x1b(\[[0-9;?>]*[A-Za-z]|\(B|\][^\x07]*\x07)")


class Terminal:
    """A terminal with a command in it: `printed` is all that it has printed, escape sequences as well."""

    def __init__(self, command: Sequence[str], width: int = 200, **environment: str) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self._here, self._there = pty.openpty()
        self.resize(width)
        self._before = self.modes
        self._running = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command],  # a shell completes only at a terminal of its own
            stdin=self._there,
            stdout=self._there,
            stderr=self._there,
            env={**kept, "TERM": "xterm", "PATH": path, **environment},
        )
        self.printed = self._new = ""

    @staticmethod
    def plain(text: str) -> str:
        """Return a text without escape sequences."""
        return _STYLES.sub("", text)

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._there)

    def is_as_before(self) -> bool:
        """Tell whether its modes are those before the command."""
        return self.modes == self._before

    def resize(self, width: int, height: int = 40) -> None:
        fcntl.ioctl(self._here, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._here, text.encode())

    def shows(self, text: str) -> bool:
        """Wait until a text is shown, and forget what was shown before."""
        until = time.monotonic() + _PATIENCE_S
        while text not in self._new:
            if not self._read(until - time.monotonic()):
                return False
        self._new = self._new.partition(text)[2]
        return True

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._here], [], [], max(timeout_s, 0))[0]:
            return False
        text = os.read(self._here, 65_536).decode(errors="replace")
        self.printed += text
        self._new = self.plain(self._new + text)
        return True

    def ended(self) -> int:
        """Wait until the command has ended, and return its exit code."""
        until = time.monotonic() + _PATIENCE_S
        while self._running.poll() is None and time.monotonic() < until:
            self._read(0.1)
        while self._read(0):
            pass
        return self._running.wait(0)

    def close(self) -> None:
        os.close(self._here)  # hangs up, which ends what runs
        os.close(self._there)
        self._running.wait()
