"""One task's RocksDB database: opening it, also beside one that is in use, and what its errors mean.

A database has one process at a time. A task that comes back to a machine where another process still holds its
directory (one that was stopped, or hands over slowly) gets a second one beside it, and restores that from the changelog.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rocksdict import DbClosedError, Options, Rdict, WriteBatch

from eventlib.errors import EventlibError, LogFull, LogUnavailable
from eventlib.ground.private_files import make_private_directory

NOTE_KEY = b"n"
KEY_PREFIX = b"k"
AFTER_KEYS = b"l"
_WRITE_BUFFER_BYTES = 2 << 20  # a process may hold hundreds of tasks; RocksDB's own 64 MB are meant for one database
_OPEN_FILES = 64
_COPIES = 100


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


class RocksDatabase:
    """One task's open database, shared by the task's owners in this process."""

    def __init__(self, path: Path, db: Rdict) -> None:
        self.path = path
        self.users = 0
        self.is_gone = False
        self._db = db
        self.note = self._read_note()

    @classmethod
    def open(cls, directory: Path, partition: int) -> "RocksDatabase":
        """Open the task's database, or a copy beside it where another process holds it."""
        for copy in range(_COPIES):
            path = directory / (f"{partition}.{copy}" if copy else f"{partition}")
            db = _opened(path)
            if db is not None:
                return cls(path, db)
        raise LogUnavailable(
            f"the state store {directory / str(partition)} and {_COPIES} copies beside it are all in use"
        )

    def write(self, batch: WriteBatch, note: StoreMetadata) -> None:
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
