"""Beats for the claims of a process while its event loop is blocked: from a thread with a connection of its own."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from time import monotonic
from typing import Protocol

from eventlib.errors import EventlibError
from eventlib.log.sqlite.connection import file_uri
from eventlib.log.sqlite.file import LogFile

BEAT = "UPDATE owners SET seen_at = max(seen_at + 1, ?) WHERE owner = ?"
_LATE = 2
"""After how many beats that its own loop has left out a process gets them from the thread."""


class Beating(Protocol):
    """A member whose claims are kept alive; `beaten_at` is a monotonic time."""

    owner: str
    beaten_at: float


class SpareBeat:
    """Keeps the claims of members alive while the loop of their process does not, for at most `max_blocked_s` seconds.

    Guarantee: it changes no more than the loop's own beat does, and makes no file. `looked_at` says when (monotonic
    time) the loop last looked after its claims.
    """

    def __init__(self, file: LogFile, members: Callable[[], Sequence[Beating]], looked_at: Callable[[], float]) -> None:
        self._path = file.path
        self._options = file.options
        self._members = members
        self._looked_at = looked_at
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name=f"spare heartbeat of {file.path.name}", daemon=True).start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()

    def _run(self) -> None:
        options = self._options
        while not self._stopped.wait(options.heartbeat_s):
            if _LATE * options.heartbeat_s < monotonic() - self._looked_at() < options.max_blocked_s:
                self._beat()

    def _beat(self) -> None:
        members, began = self._members(), monotonic()
        uri = file_uri(self._path)
        try:
            with (
                closing(
                    sqlite3.connect(f"{uri}{'&' if '?' in uri else '?'}mode=rw", uri=True, timeout=0)
                ) as connection,
                connection,
            ):
                connection.executemany(BEAT, [(self._options.clock(), member.owner) for member in members])
        except (sqlite3.Error, EventlibError):
            return  # another one writes just now: the next beat tries again
        for member in members:
            member.beaten_at = max(member.beaten_at, began)
