"""Reads local stores without opening them as an owner does: nothing is written."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple
from urllib.parse import quote

from eventlib.errors import LogUnavailable
from eventlib.ground.url import log_file
from eventlib.log.checksum import seal, value_checksum
from eventlib.log.sqlite.errors import explained
from eventlib.state.open import store_directory

_TRIES = 5
_PAUSE_S = 0.1


@dataclass(frozen=True)
class StoreSnapshot:
    """One task's store as of one moment: whose it is, of which log, and the changelog offset up to which it is complete.

    `position` is what it holds about the task's place in its inputs; `values` are all keys, in key order, to be read
    before the next store is looked into.
    """

    place: Path
    service: str
    partition: int
    log_id: str
    checkpoint: int
    position: bytes | None
    values: Iterator[tuple[str, bytes]]


def snapshots_in(log_url: str, state_dir: str, position_key: str) -> Iterator[StoreSnapshot]:
    """Yield what the stores of a log's tasks on this machine hold. Raises: LogUnavailable, LogCorrupt."""
    directory = store_directory(log_url, state_dir)
    if directory is None or not directory.is_dir():
        return
    if log_file(log_url) is not None:
        for path in sorted(directory.glob("*.db")):
            yield from _in_file(path, position_key)
    else:
        for path in sorted(directory.glob("*/*")):
            if path.name.partition(".")[0].isdecimal():
                yield from _in_database(path, position_key)


def _in_file(path: Path, position_key: str) -> Iterator[StoreSnapshot]:
    """Yield the stores in a service's file, all as of one moment."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            tasks = connection.execute("SELECT partition, log_id, checkpoint FROM tasks ORDER BY partition").fetchall()
            for partition, log_id, checkpoint in tasks:
                sql = "SELECT value FROM state WHERE partition = ? AND key = ?"
                row = connection.execute(sql, (partition, position_key)).fetchone()
                values = connection.execute(
                    "SELECT key, value FROM state WHERE partition = ? ORDER BY key", (partition,)
                )
                position = None if row is None else bytes(row[0])
                yield StoreSnapshot(path, path.stem, partition, log_id, checkpoint, position, values)
    except sqlite3.Error as error:
        raise explained(error, path, "state store") from error


def _in_database(path: Path, position_key: str) -> Iterator[StoreSnapshot]:
    """Yield what a database of RocksDB's holds, if it is a task's, as of the moment when it is opened."""
    from eventlib.state.rocksdb_database import KEY_PREFIX, NOTE_KEY, StoreMetadata

    db: Any = _open_to_read(path)  # its types are those of the mode that is not raw
    try:
        note = db.get(NOTE_KEY)
        if note is not None:
            task, found = (path.parent.name, int(path.name.partition(".")[0])), StoreMetadata.unpacked(note)
            items = db.items(from_key=KEY_PREFIX)
            values = ((key[1:].decode(), value) for key, value in items if key.startswith(KEY_PREFIX))
            yield StoreSnapshot(
                path, *task, found.log_id, found.checkpoint, db.get(KEY_PREFIX + position_key.encode()), values
            )
    finally:
        db.close()


def _open_to_read(path: Path) -> object:
    """Open a database that another process may be writing. Raises: LogUnavailable."""
    from rocksdict import AccessType, Options, Rdict

    # Without a bound on open files all of them are opened now, so that none is missed when its owner removes it.
    for left in reversed(range(_TRIES)):
        try:
            return Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as error:  # the binding has no narrower type
            if not left:
                raise LogUnavailable(f"the state store {path} cannot be looked into: {error}") from error
            sleep(_PAUSE_S)  # its owner may just have removed a file that it named
    raise AssertionError(path)


_WAITS_S = 2.0
_KEYS = "SELECT key, value, checksum FROM state WHERE partition = ? AND key >= ? AND key < ?"
_TASK = "SELECT epoch, log_id, checkpoint, flushed_at, checksum FROM tasks WHERE partition = ?"


class StoredState(NamedTuple):
    """What a store has of some keys, complete up to an offset of the task's changelog."""

    checkpoint: int
    values: dict[str, bytes]


def kept_in(path: Path, partition: int, log_id: str, since_ms: int, prefixes: Sequence[str]) -> StoredState | None:
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
            return StoredState(int(row[2]), values)
    except (sqlite3.Error, UnicodeDecodeError, TypeError):  # it is a cache, and the changelog has all of it
        return None


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
