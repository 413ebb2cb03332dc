"""Stores in RocksDB, a database for each task: what stays small beside a log that is elsewhere.

A database has one process at a time. A task that comes back to a machine where another process still holds its
directory (one that was stopped, or hands over slowly) gets a second one beside it, and restores that from the changelog.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import DbClosedError, Options, Rdict, WriteBatch

from eventlib.errors import EventlibError, LogFull, LogUnavailable
from eventlib.log.base import TOMBSTONES_KEPT, Claim
from eventlib.private_files import make_private_directory
from eventlib.state.base import Store, Stores
from eventlib.state.memory import refuse_older
from eventlib.values import now_ms

# Four fifths, so that neither clocks nor a slow start bring a store near the moment when tombstones go.
_LONGEST_MS = int(TOMBSTONES_KEPT.total_seconds() * 1000 * 0.8)
NOTE_KEY = b"n"
KEY_PREFIX = b"k"
_AFTER_KEYS = b"l"
_WRITE_BUFFER_BYTES = 2 << 20  # a process may hold hundreds of tasks; RocksDB's own 64 MB are meant for one database
_OPEN_FILES = 64
_COPIES = 100


class RocksStores(Stores):
    """Keeps each task's store in `<directory>/<service>/<partition>`."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)
        self._databases = dict[tuple[str, int], _Database]()

    def open(self, service: str, partition: int, epoch: int, log_id: str) -> Store:
        """See `Stores.open`. Raises: LogUnavailable when its directory cannot be used."""
        return self._store(self._database(service, partition), Claim(service, partition, epoch), log_id)

    def open_copy(self, service: str, partition: int, log_id: str) -> Store:
        """See `Stores.open_copy`. Raises: as `open` does."""
        database = self._database(service, partition)
        epoch = database.note.epoch if database.note is not None and database.note.log_id == log_id else 0
        return self._store(database, Claim(service, partition, epoch), log_id)

    def _database(self, service: str, partition: int) -> "_Database":
        database = self._databases.get((service, partition))
        if database is None or database.is_gone:
            database = self._databases[service, partition] = _Database.open(self._directory / service, partition)
        return database

    def _store(self, database: "_Database", claim: Claim, log_id: str) -> Store:
        try:
            return _RocksStore(database, *claim, log_id)
        finally:
            database.close_if_unused()

    def close(self) -> None:
        """See `Stores.close`."""
        for database in self._databases.values():
            database.close()
        self._databases.clear()


@dataclass
class StoreMetadata:
    """What a database records of itself: its owner, its log, how far it is complete, and until when (ms)."""

    epoch: int
    log_id: str
    checkpoint: int
    flushed_at: int

    @classmethod
    def unpacked(cls, found: bytes) -> "StoreMetadata":
        """Read it as it is written."""
        return cls(*json.loads(found))

    def packed(self) -> bytes:
        """Return it as it is written."""
        return json.dumps([self.epoch, self.log_id, self.checkpoint, self.flushed_at]).encode()


class _Database:
    """One task's open database, shared by the task's owners in this process."""

    def __init__(self, path: Path, db: Rdict) -> None:
        self.path = path
        self.users = 0
        self.is_gone = False
        self._db = db
        self.note = self._read_note()

    @classmethod
    def open(cls, directory: Path, partition: int) -> "_Database":
        """Open the task's database, or a copy beside it where another process holds it."""
        for copy in range(_COPIES):
            path = directory / (f"{partition}.{copy}" if copy else f"{partition}")
            db = _opened(path)
            if db is not None:
                return cls(path, db)
        raise LogUnavailable(
            f"the state store {directory / str(partition)} and {_COPIES} copies beside it are all in use"
        )

    def write(self, batch: Any, note: StoreMetadata) -> None:
        """Write a batch, and the note with it."""
        batch[NOTE_KEY] = note.packed()
        try:
            self._db.write(batch)
        except Exception as error:
            raise self._explained(error) from error
        self.note = note

    def get(self, key: str) -> bytes | None:
        """Return a key's bytes."""
        try:
            value = self._db.get(KEY_PREFIX + key.encode())
        except Exception as error:
            raise self._explained(error) from error
        return None if value is None else bytes(value)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield what stands under a prefix, as of now."""
        start = KEY_PREFIX + prefix.encode()
        try:
            found: Iterator[tuple[bytes, bytes]] = self._db.items(from_key=start)  # type: ignore[assignment]  # raw mode
            for key, value in found:
                if not key.startswith(start):
                    return
                yield key[1:].decode(), value
        except Exception as error:
            raise self._explained(error) from error

    def close(self) -> None:
        """Close it, and let other processes have it."""
        if not self.is_gone:
            self.is_gone = True
            self._db.close()

    def close_if_unused(self) -> None:
        """Close it when no owner in this process has it any more."""
        if not self.users:
            self.close()

    def _read_note(self) -> StoreMetadata | None:
        found = self._db.get(NOTE_KEY)
        return None if found is None else StoreMetadata.unpacked(found)

    def _explained(self, error: Exception) -> EventlibError:
        if isinstance(error, DbClosedError):
            return LogUnavailable(f"the state store {self.path} is closed: open it again")
        text = str(error)
        if "No space left" in text:
            return LogFull(f"the state store {self.path} cannot be written, its disk is full: make room, and go on")
        if not _is_damage(text):
            return LogUnavailable(f"the state store {self.path} cannot be used: {text}")
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)
        return LogUnavailable(
            f"the state store {self.path} is gone: it was damaged ({text}), and thrown away; open it again, and restore "
            "the changelog"
        )


class _RocksStore(Store):
    """One owner's view of a task's database."""

    def __init__(self, database: _Database, service: str, partition: int, epoch: int, log_id: str) -> None:
        self._database = database
        self._service, self._partition = service, partition
        self._epoch, self._log_id = epoch, log_id
        self._closed = False
        note = database.note
        if note is not None and note.log_id == log_id:
            refuse_older(service, partition, epoch, note.epoch)
        if note is None or note.log_id != log_id or now_ms() - note.flushed_at > _LONGEST_MS:
            self._begin_anew()
        else:
            self._write(WriteBatch(raw_mode=True), note.checkpoint)
        database.users += 1

    @property
    def checkpoint(self) -> int:
        """See `Store.checkpoint`."""
        return self._checkpoint

    def get(self, key: str) -> bytes | None:
        """See `Store.get`."""
        return self._database.get(key)

    def write(self, changes: Mapping[str, bytes | None], checkpoint: int) -> None:
        """See `Store.write`."""
        self._refuse_zombie()
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(KEY_PREFIX + key.encode())
            else:
                batch.put(KEY_PREFIX + key.encode(), value)
        self._write(batch, checkpoint)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """See `Store.scan`; it shows what was there when it began."""
        return self._database.scan(prefix)

    def clear(self) -> None:
        """See `Store.clear`."""
        self._refuse_zombie()
        self._begin_anew()

    def close(self) -> None:
        """See `Store.close`; the last owner in this process lets others have the database."""
        if self._closed or self._database.is_gone:
            return
        self._closed = True
        note = self._database.note
        if note is not None and (note.epoch, note.log_id) == (self._epoch, self._log_id):
            self._write(WriteBatch(raw_mode=True), self._checkpoint)  # it was complete until now
        self._database.users -= 1
        self._database.close_if_unused()

    def _begin_anew(self) -> None:
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(KEY_PREFIX, _AFTER_KEYS)
        self._write(batch, 0)

    def _write(self, batch: WriteBatch, checkpoint: int) -> None:
        self._database.write(batch, StoreMetadata(self._epoch, self._log_id, checkpoint, now_ms()))
        self._checkpoint = checkpoint

    def _refuse_zombie(self) -> None:
        note = self._database.note
        if note is not None:
            refuse_older(self._service, self._partition, self._epoch, note.epoch)


def _opened(path: Path) -> Rdict | None:
    """Open a database, thrown away and new if it is damaged; None when another process holds it."""
    try:
        make_private_directory(path)
        try:
            return Rdict(str(path), _options())
        except Exception as error:
            if not _is_damage(str(error)):
                raise
            shutil.rmtree(path)
            make_private_directory(path)
            return Rdict(str(path), _options())
    except Exception as error:  # the binding has no narrower type
        if "While lock file" in str(error) or "lock hold by current process" in str(error):
            return None
        raise LogUnavailable(f"the state store {path} cannot be used: {error}") from error


def _is_damage(text: str) -> bool:
    return text.startswith(("Corruption", "Invalid argument", "Not implemented", "NotFound"))


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(1)
    options.set_max_background_jobs(2)
    return options
