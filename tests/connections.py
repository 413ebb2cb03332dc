"""The connections to SQLite files that a test opens, so that it can let their disk fail."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Connections = dict[str, list[sqlite3.Connection]]


def opened_from_here(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """Return the connections that are opened from here on, by the file's name: those of a file in their order."""
    found, connect = Connections(), sqlite3.connect

    def connecting(path: Any, *arguments: Any, **named: Any) -> sqlite3.Connection:
        opened: sqlite3.Connection = connect(path, *arguments, **named)
        found.setdefault(Path(path).name, []).append(opened)
        return opened

    monkeypatch.setattr(sqlite3, "connect", connecting)
    return found


@contextmanager
def silent(*connections: sqlite3.Connection) -> Iterator[None]:
    """Let every statement on some connections fail, as on a disk that does not answer."""
    for each in connections:
        each.set_progress_handler(lambda: 1, 1)
    yield
    for each in connections:
        each.set_progress_handler(None, 0)
