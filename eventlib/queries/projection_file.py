"""A projection's declaration, and its SQLite file: tables and positions change in one transaction."""

import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from eventlib.errors import LogUnavailable
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.ground.url import log_file
from eventlib.log.base import Log, TopicPartition
from eventlib.log.sqlite.errors import Transaction, explained, is_busy, is_damaged, unavailable
from eventlib.model.record import Record
from eventlib.values import now_ms

Apply = Callable[[sqlite3.Connection, Record, Any], Iterable[Hashable] | None]


@dataclass(frozen=True)
class View:
    """Tables that follow from topics: `View("points", topics=["orders"], tables="CREATE TABLE …", apply=apply)`.

    `apply(db, record, event)` writes what one record means into the tables; it commits nothing itself, and does
    nothing else, since it is called again for the same record when its transaction did not happen. `event` is the
    event, or the state of a changelog; None for a tombstone and for a record that cannot be read (its bytes are in
    `record.value`), and for every record of a topic in `undecoded`: these are read beside `topics`, and cost less.
    Of a compacted topic only the newest records of each key are sure to come, as for every reader of it.
    `apply` may return the keys whose rows it changed: those who wait for them (`Projection.until`) then look again.
    Another `version`, other topics or other tables begin the file again; so give `apply` another version when it
    changes. A file that was made by the view `wider`, of the same topics with more tables, serves, and stays as that has it.
    """

    name: str
    topics: Sequence[str]
    tables: str
    apply: Apply
    undecoded: Sequence[str] = ()
    version: int | str = 1
    wider: "View | None" = None

    @classmethod
    def combined(cls, name: str, views: Sequence["View"]) -> "View":
        """Return one view with the tables of several: they change in one transaction, and have one position."""
        decoded = list(dict.fromkeys(topic for view in views for topic in view.topics))
        undecoded = {topic for view in views for topic in view.undecoded}.difference(decoded)
        readers: dict[str, list[tuple[Apply, bool]]] = {}
        for view in views:
            for topic in view.inputs:
                readers.setdefault(topic, []).append((view.apply, topic in view.topics))

        def apply(db: sqlite3.Connection, record: Record, event: Any) -> Iterable[Hashable]:
            own = readers[record.topic]
            if len(own) == 1:
                ((one, is_decoded),) = own
                return one(db, record, event if is_decoded else None) or ()
            return [key for each, sees in own for key in each(db, record, event if sees else None) or ()]

        tables = ";".join(view.tables.strip().rstrip(";") for view in views)
        versions = repr([(view.name, view.version) for view in views])
        return cls(name, decoded, tables, apply, sorted(undecoded), versions)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every topic that is read."""
        return tuple(dict.fromkeys([*self.topics, *self.undecoded]))

    @property
    def fingerprint(self) -> str:
        """What distinguishes this declaration from another one of the same name (16 hex digits)."""
        declared = repr((self.name, sorted(self.topics), sorted(self.undecoded), self.tables, self.version))
        return blake2b(declared.encode(), digest_size=8).hexdigest()


WHAT = "projection"
"""What messages call such a file."""
_MOST_INSTANCES = 100
_OWN_TABLES = """
CREATE TABLE eventlib_positions (
    topic TEXT, partition INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE eventlib_damaged (
    topic TEXT, partition INTEGER, offset INTEGER, PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
CREATE TABLE eventlib_misfits (
    topic TEXT, partition INTEGER, offset INTEGER, reason TEXT NOT NULL, PRIMARY KEY (topic, partition, offset)
) WITHOUT ROWID;
CREATE TABLE eventlib_projection (log_id TEXT NOT NULL, fingerprint TEXT NOT NULL);
CREATE TABLE eventlib_read (topics TEXT PRIMARY KEY, read_at INTEGER NOT NULL) WITHOUT ROWID;
"""


class ViewFile:
    """A view's tables in a file that this process alone has open.

    Guarantee: tables and positions are written together or not at all; a killed process leaves the last transaction.
    A power cut may take the last seconds; they are read from the log again.
    Raises: LogUnavailable when another process has the file, LogFull, LogReadOnly.
    """

    def __init__(self, view: View, path: Path | None, log_id: str, topics: Collection[str]) -> None:
        self.path = path or Path(":memory:")
        self.view = view
        self._log_id = log_id
        self._topics = to_json(sorted(topics)).decode()
        self.db = self._opened()
        self.positions = self._positions()
        self.damaged = {(*row,) for row in self.db.execute("SELECT topic, partition, offset FROM eventlib_damaged")}

    @classmethod
    def opened(cls, view: View, path: Path | None, log: Log, topics: Collection[str]) -> "ViewFile":
        """Open the file at a path; without one, the first that is free beside a log, or in memory for a log in memory."""
        beside = _beside(log.url, view.name) if path is None else None
        return (
            cls(view, path, log.log_id, topics) if beside is None else cls._open_free(view, beside, log.log_id, topics)
        )

    @classmethod
    def _open_free(cls, view: View, path: Path, log_id: str, topics: Collection[str]) -> "ViewFile":
        """Open the file at a path, or, while another process has it, one beside it: each instance has its own."""
        for number in range(1, _MOST_INSTANCES + 1):
            own = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
            try:
                return cls(view, own, log_id, topics)
            except InUse:
                continue
        raise unavailable(path, f"{_MOST_INSTANCES} instances are open already", WHAT)

    def begin_anew(self) -> None:
        """Drop all tables, and make them again, empty. Raises: what `explained` says."""
        try:
            self._begin_anew()
        except sqlite3.DatabaseError as error:
            raise explained(error, self.path, WHAT) from error

    def _begin_anew(self) -> None:
        kinds = {"table": "TABLE", "view": "VIEW"}
        there = self.db.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
        drops = [f'DROP {kinds[kind]} IF EXISTS "{name}";' for kind, name in there if kind in kinds]
        try:
            self.db.executescript(f"BEGIN IMMEDIATE; {''.join(drops)} {_OWN_TABLES} {self.view.tables};")
            self.db.execute("INSERT INTO eventlib_projection VALUES (?, ?)", (self._log_id, self.view.fingerprint))
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
        self.positions, self.damaged = {}, set[tuple[str, int, int]]()

    def write(
        self,
        act: Callable[[sqlite3.Connection], None],
        positions: Mapping[TopicPartition, int],
        damaged: Collection[tuple[str, int, int]] = (),
    ) -> None:
        """Run `act`, and note these positions and the records that could not be read on the way, in one transaction.

        Raises: what `act` raises; what `explained` says.
        """
        moved = [(*place, offset) for place, offset in positions.items() if self.positions.get(place) != offset]
        try:
            with Transaction(self.db):
                act(self.db)
                self.db.executemany("INSERT OR REPLACE INTO eventlib_positions VALUES (?, ?, ?)", moved)
                self.db.executemany("INSERT OR IGNORE INTO eventlib_damaged VALUES (?, ?, ?)", damaged)
                self.db.execute("INSERT OR REPLACE INTO eventlib_read VALUES (?, ?)", (self._topics, now_ms()))
        except (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.ProgrammingError):
            raise  # what `act` did wrong
        except sqlite3.DatabaseError as error:
            raise explained(error, self.path, WHAT) from error
        self.positions = dict(positions)
        self.damaged |= {*damaged}

    def read_at(self, topics: Collection[str]) -> int:
        """Return when the one of these topics was read last that was not read for longest (ms); now if none ever was.

        Raises: what `explained` says.
        """
        newest: dict[str, int] = {}
        try:
            found = self.db.execute("SELECT topics, read_at FROM eventlib_read").fetchall()
        except sqlite3.DatabaseError as error:
            raise explained(error, self.path, WHAT) from error
        for of_read, at in found:
            newest |= {topic: max(at, newest.get(topic, 0)) for topic in {*from_json(of_read)}.intersection(topics)}
        return min(newest.values(), default=now_ms())

    def close(self) -> None:
        """Close the file, so that another process may have it."""
        self.db.close()

    def _opened(self) -> sqlite3.Connection:
        try:
            make_private_directory(self.path.parent)
            return self._connected()
        except OSError as error:
            raise unavailable(self.path, f"its directory cannot be made ({error})", WHAT) from error
        except sqlite3.Error as error:
            if is_busy(error):
                raise InUse(f"the projection {self.path} is open elsewhere: give this one another path") from error
            if not is_damaged(error):
                raise explained(error, self.path, WHAT) from error
        for suffix in ("", "-wal", "-shm"):  # a cache of the log: what is damaged is made again
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return self._connected()

    def _connected(self) -> sqlite3.Connection:
        if self.path != Path(":memory:"):
            create_private(self.path)
        self.db = db = sqlite3.connect(self.path, timeout=0, isolation_level=None, cached_statements=256)
        try:
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("PRAGMA cache_size=-16384")  # KiB
            db.execute("PRAGMA journal_size_limit=67108864")
            db.execute("PRAGMA wal_autocheckpoint=8000")  # pages; each checkpoint waits for the disk
            db.execute("BEGIN IMMEDIATE")  # from here on the file is this process's own
            db.execute("COMMIT")
            if not self._is_ours():
                self._begin_anew()
        except BaseException:
            db.close()
            raise
        return db

    def _is_ours(self) -> bool:
        try:
            row = self.db.execute("SELECT log_id, fingerprint FROM eventlib_projection").fetchone()
            self.db.execute(
                "SELECT 1 FROM eventlib_damaged, eventlib_misfits, eventlib_read LIMIT 1"
            )  # files of older releases lack them
        except sqlite3.OperationalError:
            return False  # a new file, or another's tables
        if self.view.wider is not None and row == (self._log_id, self.view.wider.fingerprint):
            self.view = self.view.wider
        return bool(row == (self._log_id, self.view.fingerprint))

    def _positions(self) -> dict[TopicPartition, int]:
        rows = self.db.execute("SELECT topic, partition, next FROM eventlib_positions")
        return {(topic, partition): offset for topic, partition, offset in rows}


class InUse(LogUnavailable):
    """Another process has the file."""


def _beside(log_url: str, name: str) -> Path | None:
    """Return where a log's projections lie: beside an SQLite log's file, in `var` for a log elsewhere."""
    file = log_file(log_url)
    if file is not None:
        return file.with_name(f"{file.name}.{name}.db")
    if log_url.startswith("memory:"):
        return None
    safe = "".join(letter if letter.isalnum() else "-" for letter in log_url.partition("://")[2])
    return Path("var") / f"{safe}.{name}.db"
