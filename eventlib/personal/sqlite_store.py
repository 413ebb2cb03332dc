"""Keys of subjects in an SQLite file, for the processes of one machine."""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from eventlib.errors import LogCorrupt, LogUnavailable
from eventlib.ground.private_files import create_private
from eventlib.personal.store import KeyRow, KeyStore, NoKeys

_WAIT_S = 10
_TABLES = """
CREATE TABLE IF NOT EXISTS ring (one INTEGER PRIMARY KEY CHECK (one = 1), wrapped BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS generation (one INTEGER PRIMARY KEY CHECK (one = 1), erasures INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS keys (slot INTEGER PRIMARY KEY, wrapped BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS subjects (
  subject TEXT PRIMARY KEY, id BLOB NOT NULL UNIQUE, slot INTEGER NOT NULL UNIQUE, had_key INTEGER NOT NULL,
  erased_ms INTEGER, erasure INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS erased ON subjects (erasure) WHERE erasure IS NOT NULL;
INSERT OR IGNORE INTO generation VALUES (1, 0);
"""
_ROW = "SELECT subject, id, wrapped, erased_ms, had_key FROM subjects JOIN keys USING (slot) WHERE "


class SqliteKeyStore(KeyStore):
    """The wrapped keys in an SQLite file.

    Guarantee, besides those of every key store: a destroyed key is overwritten in place, in the file and in its write-ahead
    log, before `erase` returns. A row of `keys` never moves, since its table only grows at its end and a row keeps its size.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        if not create and not path.is_file():
            raise NoKeys(f"there are no personal keys at {path}: name them with EVENTLIB_PERSONAL_KEYS")
        self.name = str(path)
        self.path = path
        self._lock = RLock()
        self._opened: tuple[int, sqlite3.Connection] | None = None
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            create_private(path)
            try:
                with self._used() as file:
                    file.executescript(_TABLES)
            except BaseException:
                self.close()
                raise

    def ring(self) -> bytes | None:
        """See `KeyStore.ring`."""
        with self._used() as file:
            row = file.execute("SELECT wrapped FROM ring").fetchone()
        return None if row is None else row[0]

    def set_ring(self, wrapped: bytes) -> None:
        """See `KeyStore.set_ring`."""
        with self._used() as file:
            file.execute("INSERT OR IGNORE INTO ring VALUES (1, ?)", (wrapped,))

    def of_subject(self, subject: str) -> KeyRow | None:
        """See `KeyStore.of_subject`."""
        return self._row("subject = ?", subject)

    def of_id(self, key_id: bytes) -> KeyRow | None:
        """See `KeyStore.of_id`."""
        return self._row("id = ?", key_id)

    def add_all(self, rows: Sequence[KeyRow]) -> list[KeyRow]:
        """See `KeyStore.add_all`."""
        with self._used() as file:
            with _transaction(file):
                for row in rows:
                    _add(file, row)
            return [_row(file.execute(_ROW + "subject = ?", (row.subject,)).fetchone()) for row in rows]

    def erase(self, row: KeyRow, at_ms: int) -> bool:
        """See `KeyStore.erase`."""
        with self._used() as file:
            with _transaction(file):
                known = file.execute(_ROW + "subject = ?", (row.subject,)).fetchone()
                if known is None:
                    _add(file, row._replace(had_key=False))
                if known is None or known[3] is None:
                    _destroy(file, row.subject, at_ms)
            self._truncate(file)
        return known is not None

    def erasures(self) -> int:
        """See `KeyStore.erasures`."""
        with self._used() as file:
            return int(file.execute("SELECT erasures FROM generation").fetchone()[0])

    def erased_after(self, erasure: int) -> list[tuple[str, bytes]]:
        """See `KeyStore.erased_after`."""
        with self._used() as file:
            return file.execute(
                "SELECT subject, id FROM subjects WHERE erasure > ? ORDER BY erasure", (erasure,)
            ).fetchall()

    def page(self, after: bytes, size: int) -> list[KeyRow]:
        """See `KeyStore.page`."""
        with self._used() as file:
            rows = file.execute(f"{_ROW} id > ? ORDER BY id LIMIT ?", (after, size)).fetchall()
        return [_row(each) for each in rows]

    def replace_all(self, ring: bytes | None, rows: Iterable[KeyRow]) -> None:
        """See `KeyStore.replace_all`."""
        with self._used() as file:
            with _transaction(file):
                for table in ("ring", "keys", "subjects"):
                    file.execute(f"DELETE FROM {table}")  # noqa: S608  a constant
                if ring is not None:
                    file.execute("INSERT INTO ring VALUES (1, ?)", (ring,))
                for row in rows:
                    _add(file, row)
                    if row.erased_ms is not None:
                        _destroy(file, row.subject, row.erased_ms)
            self._truncate(file)

    def close(self) -> None:
        """See `KeyStore.close`."""
        with self._lock:
            if self._opened is not None and self._opened[0] == os.getpid():
                self._opened[1].close()
            self._opened = None

    def _row(self, where: str, value: str | bytes) -> KeyRow | None:
        with self._used() as file:
            row = file.execute(_ROW + where, (value,)).fetchone()
        return None if row is None else _row(row)

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of this process: one does not survive a fork."""
        with self._lock:
            try:
                if self._opened is None or self._opened[0] != os.getpid():
                    self._opened = os.getpid(), self._connect()
                yield self._opened[1]
            except sqlite3.OperationalError as error:
                raise LogUnavailable(f"the personal keys at {self.name} are out of reach: {error}") from error
            except sqlite3.DatabaseError as error:
                raise LogCorrupt(
                    f"the personal keys at {self.name} are damaged: {error}; move the file away, and restore a copy"
                ) from error

    def _connect(self) -> sqlite3.Connection:
        file = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA secure_delete=ON")
            _use_write_ahead_log(file)
            file.execute("PRAGMA synchronous=FULL")
        except BaseException:
            file.close()
            raise
        return file

    def _truncate(self, file: sqlite3.Connection) -> None:
        """Empty the write-ahead log, which holds pages as they were. Raises: LogUnavailable while a reader needs it."""
        end = time.monotonic() + _WAIT_S
        while file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > end:
                raise LogUnavailable(
                    f"{self.path}-wal is in use, and may still hold a destroyed key: run the command again"
                )
            time.sleep(0.01)


def _use_write_ahead_log(file: sqlite3.Connection) -> None:
    """Switch a file to a write-ahead log; SQLite itself does not wait for another process that does it now."""
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            file.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _destroy(file: sqlite3.Connection, subject: str, at_ms: int) -> None:
    slot = "(SELECT slot FROM subjects WHERE subject = ?)"
    file.execute(f"UPDATE keys SET wrapped = zeroblob(length(wrapped)) WHERE slot = {slot}", (subject,))  # noqa: S608  a constant
    file.execute("UPDATE generation SET erasures = erasures + 1")
    number = "(SELECT erasures FROM generation)"
    file.execute(f"UPDATE subjects SET erased_ms = ?, erasure = {number} WHERE subject = ?", (at_ms, subject))  # noqa: S608


def _row(row: tuple[str, bytes, bytes, int | None, int]) -> KeyRow:
    return KeyRow(*row[:4], had_key=bool(row[4]))


def _add(file: sqlite3.Connection, row: KeyRow) -> None:
    if file.execute("SELECT 1 FROM subjects WHERE subject = ?", (row.subject,)).fetchone():
        return
    slot = file.execute("INSERT INTO keys (wrapped) VALUES (?)", (row.wrapped,)).lastrowid
    file.execute("INSERT INTO subjects VALUES (?, ?, ?, ?, NULL, NULL)", (row.subject, row.id, slot, row.had_key))


@contextmanager
def _transaction(file: sqlite3.Connection) -> Iterator[None]:
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        file.execute("ROLLBACK")
        raise
    file.execute("COMMIT")
