"""Reads a task's SQLite store beside its owner, who notices nothing: a few keys of it, without the changelog."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from eventlib.log.checksum import seal, value_checksum

_WAITS_S = 2.0
_KEYS = "SELECT key, value, checksum FROM state WHERE partition = ? AND key >= ? AND key < ?"
_TASK = "SELECT epoch, log_id, checkpoint, flushed_at, checksum FROM tasks WHERE partition = ?"


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
            row = connection.execute(_TASK, (partition,)).fetchone()
            if row is None or row[1] != log_id or row[3] <= since_ms or row[-1] != seal(partition, *row[:-1]):
                return None
            values = dict[str, bytes]()
            for prefix in prefixes:
                for key, value, checksum in connection.execute(_KEYS, (partition, prefix, _after(prefix))):
                    if checksum != value_checksum(partition, key, value):
                        return None
                    values[key] = value
            return Kept(int(row[2]), values)
    except (sqlite3.Error, UnicodeDecodeError, TypeError):  # it is a cache, and the changelog has all of it
        return None


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
