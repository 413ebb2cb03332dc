"""Reads a task's SQLite store beside its owner, who notices nothing: a few keys of it, without the changelog."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

_WAITS_S = 2.0
_KEYS = "SELECT key, value FROM state WHERE partition = ? AND key >= ? AND key < ?"
_TASK = "SELECT checkpoint FROM tasks WHERE partition = ? AND log_id = ? AND flushed_at > ?"


class Kept(NamedTuple):
    """What a store has of some keys, complete up to an offset of the task's changelog."""

    checkpoint: int
    values: dict[str, bytes]


def kept_in(path: Path, partition: int, log_id: str, since_ms: int, prefixes: Sequence[str]) -> Kept | None:
    """Return what a service's store file has under some prefixes for a task.

    None when the file is not there, cannot be read now, has nothing of this log, or was last written before `since_ms`.
    """
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAITS_S)) as connection:
            connection.execute("BEGIN")
            row = connection.execute(_TASK, (partition, log_id, since_ms)).fetchone()
            if row is None:
                return None
            values = dict[str, bytes]()
            for prefix in prefixes:
                values.update(connection.execute(_KEYS, (partition, prefix, _after(prefix))).fetchall())
            return Kept(int(row[0]), values)
    except sqlite3.Error:  # it is a cache, and the changelog has all of it
        return None


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
