"""The file that holds the stores of one service's tasks. It is a cache: what does not fit is thrown away."""

import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from eventlib.errors import EventlibError, OwnershipLost, StoreLost
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.base import TOMBSTONES_KEPT
from eventlib.log.checksum import seal, value_checksum
from eventlib.log.sqlite.errors import Transaction, explained, is_damaged, unavailable
from eventlib.state.memory import refuse_older
from eventlib.values import now_ms

_log = logging.getLogger("eventlib.store")

_FORMAT_VERSION = 2
_BUSY_S = 5.0
# Four fifths, so that neither clocks nor a slow start bring a store near the moment when tombstones go.
_LONGEST_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)
_TABLES = (
    """CREATE TABLE tasks (partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, log_id TEXT NOT NULL,
    checkpoint INTEGER NOT NULL, flushed_at INTEGER NOT NULL, checksum INTEGER)""",
    """CREATE TABLE state (partition INTEGER, key TEXT, value BLOB NOT NULL, checksum INTEGER,
    PRIMARY KEY (partition, key)) WITHOUT ROWID""",
    f"PRAGMA user_version={_FORMAT_VERSION}",
)
_TASK = "SELECT epoch, log_id, checkpoint, flushed_at, checksum FROM tasks WHERE partition = ?"
_FLUSHED = "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?)"
_PUT = """INSERT INTO state VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value, checksum = excluded.checksum"""
_DELETE = "DELETE FROM state WHERE partition = ? AND key = ?"
_FORGET = "DELETE FROM state WHERE partition = ?"
_GET = "SELECT value, checksum FROM state WHERE partition = ? AND key = ?"
_SCAN = "SELECT key, value, checksum FROM state WHERE partition = ? AND key >= ? ORDER BY key LIMIT ?"
_SCAN_ON = "SELECT key, value, checksum FROM state WHERE partition = ? AND key > ? ORDER BY key LIMIT ?"


class Owner(NamedTuple):
    """Who writes a task's store."""

    service: str
    partition: int
    epoch: int
    log_id: str


class _Changed(Exception):
    """A row is not what was written."""


_MISFITS = (sqlite3.Error, UnicodeDecodeError, _Changed)


class ServiceFile:
    """One SQLite file; its transactions begin and end within one call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = False
        try:
            make_private_directory(path.parent)
            self._connection = _open_or_begin_anew(path)
        except OSError as error:
            raise unavailable(path, f"its directory cannot be made ({error})", "state store") from error
        except sqlite3.Error as error:
            raise explained(error, path, "state store") from error

    def open_task(self, owner: Owner) -> int:
        """Let an owner in, and return the checkpoint that it goes on from. Raises: OwnershipLost."""
        try:
            with Transaction(self._connection):
                row = self._task(owner.partition)
                epoch, log_id, checkpoint, flushed_at = row or (0, owner.log_id, 0, now_ms())
                if log_id == owner.log_id:
                    refuse_older(owner.service, owner.partition, owner.epoch, epoch)
                if log_id != owner.log_id or now_ms() - flushed_at > _LONGEST_MS:
                    self._connection.execute(_FORGET, (owner.partition,))
                    checkpoint = 0
                self._note(owner, checkpoint)
        except _MISFITS as error:
            raise self._explained(error) from error
        return int(checkpoint)

    def write(self, owner: Owner, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """Write changes and the checkpoint in one transaction. Raises: OwnershipLost; what `explained` says."""
        partition = owner.partition
        put = [(partition, k, v, value_checksum(partition, k, v)) for k, v in changes.items() if v is not None]
        deleted = [(owner.partition, key) for key, value in changes.items() if value is None]
        try:
            with Transaction(self._usable()):
                self._refuse_zombie(owner)
                self._connection.executemany(_PUT, put)
                self._connection.executemany(_DELETE, deleted)
                self._note(owner, checkpoint)
        except _MISFITS as error:
            raise self._explained(error) from error

    def clear(self, owner: Owner) -> None:
        """Forget a task's values. Raises: OwnershipLost."""
        try:
            with Transaction(self._usable()):
                self._refuse_zombie(owner)
                self._connection.execute(_FORGET, (owner.partition,))
                self._note(owner, 0)
        except _MISFITS as error:
            raise self._explained(error) from error

    def get(self, partition: int, key: str) -> bytes | None:
        """Return a value."""
        try:
            row = self._usable().execute(_GET, (partition, key)).fetchone()
        except _MISFITS as error:
            raise self._explained(error) from error
        return None if row is None else self._proved(partition, key, *row)

    def scan(self, partition: int, start: str, after: str | None, limit: int) -> list[tuple[str, bytes]]:
        """Return values in key order: those from `start` on, or those after a key."""
        sql, key = (_SCAN, start) if after is None else (_SCAN_ON, after)
        try:
            rows = self._usable().execute(sql, (partition, key, limit)).fetchall()
        except _MISFITS as error:
            raise self._explained(error) from error
        return [(found, self._proved(partition, found, value, checksum)) for found, value, checksum in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _note(self, owner: Owner, checkpoint: int) -> None:
        values = (owner.epoch, owner.log_id, checkpoint, now_ms())
        self._connection.execute(_FLUSHED, (owner.partition, *values, seal(owner.partition, *values)))

    def _task(self, partition: int) -> tuple[int, str, int, int] | None:
        row = self._connection.execute(_TASK, (partition,)).fetchone()
        if row is None:
            return None
        *values, checksum = row
        if checksum != seal(partition, *values):
            raise _Changed(f"the row of task {partition} does not match its checksum")
        return tuple(values)

    def _proved(self, partition: int, key: str, value: object, checksum: int) -> bytes:
        if not isinstance(value, bytes) or checksum != value_checksum(partition, key, value):
            raise self._explained(_Changed(f"the value of {key} does not match its checksum"))
        return value

    def _refuse_zombie(self, owner: Owner) -> None:
        row = self._task(owner.partition)
        if row is None or row[1] != owner.log_id:
            raise OwnershipLost(
                f"the state store {self.path} belongs to another log now: nothing of this was written; start over"
            )
        refuse_older(owner.service, owner.partition, owner.epoch, row[0])

    def _usable(self) -> sqlite3.Connection:
        if self.broken:
            raise self._gone("it was damaged, and thrown away")
        return self._connection

    def _gone(self, why: str) -> StoreLost:
        return StoreLost(f"the state store {self.path} is gone: {why}; open it again, and restore the changelog")

    def _explained(self, error: Exception) -> EventlibError:
        if isinstance(error, sqlite3.Error) and not is_damaged(error):
            return explained(error, self.path, "state store")
        self.broken = True
        self._connection.close()
        _throw_away(self.path)
        _log.warning("the state store %s is damaged (%s): it is thrown away, and restored", self.path, error)
        return self._gone(f"it was damaged ({error}), and thrown away")


def _open_or_begin_anew(path: Path) -> sqlite3.Connection:
    try:
        return _open(path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if not is_damaged(error):
            raise
        _throw_away(path)
        return _open(path)


def _open(path: Path) -> sqlite3.Connection:
    create_private(path)
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # what a power cut takes is restored from the changelog
        connection.execute("PRAGMA cache_size=-2048")  # KiB
        connection.execute("PRAGMA journal_size_limit=16777216")
        if version != _FORMAT_VERSION:
            _begin_anew(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _begin_anew(connection: sqlite3.Connection) -> None:
    with Transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT_VERSION:
            for table in ("tasks", "state"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES:
                connection.execute(statement)


def _throw_away(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
