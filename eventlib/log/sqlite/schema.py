"""The file format of an SQLite log: its tables, how they are created, and which databases are refused.

A record's `position` is its partition's number (high bits) and its offset (low 40 bits), so that a partition is one
range of the table in offset order. A row is one record, or a batch of several (`packing`). The view `log` shows the rows
to people and SQL tools.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from secrets import token_hex

from eventlib.errors import LogCorrupt, LogVersionMismatch
from eventlib.log.checksum import seal
from eventlib.log.sqlite.errors import Transaction, read_only
from eventlib.log.sqlite.format import FORMAT_VERSION, LOG_VIEW
from eventlib.log.sqlite.high_water import refuse_lost
from eventlib.log.sqlite.sealed import meta_value, write_meta
from eventlib.log.sqlite.upgrade import OLDER_TEXTS, upgrade
from eventlib.values import now_ms

_OLDEST_READ = 2
"""The oldest format version that is read as it is."""
APPLICATION_ID = 0x65766C67  # "evlg"
_RETIRED = "retired"
_TEXTS = "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL"

_TABLES = f"""
-- Each row's checksum is over all that it emits, but for what changes with every beat of a heart (owners.seen_at).
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE topics (
    name TEXT PRIMARY KEY, partitions INTEGER NOT NULL, partitioner TEXT NOT NULL, retention_ms INTEGER,
    retention_bytes INTEGER, compacted INTEGER NOT NULL, latest INTEGER NOT NULL, max_event_bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
-- next_offset outlives the records, so that no offset is given twice. newest_at is the latest recorded_at so far.
-- The next three are upkeep's: how far it has looked, and what it left there. From dense_from on each offset has its
-- record, from checked_from on each record has its checksum, and digest is the sum of the checksums that are there.
CREATE TABLE partitions (
    number INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL DEFAULT 0, newest_at INTEGER NOT NULL DEFAULT 0,
    clean_to INTEGER NOT NULL DEFAULT 0, kept INTEGER NOT NULL DEFAULT 0, kept_bytes INTEGER NOT NULL DEFAULT 0,
    dense_from INTEGER NOT NULL DEFAULT 0, checked_from INTEGER NOT NULL DEFAULT 0, digest INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL DEFAULT 0,
    UNIQUE (topic, partition)
);
CREATE TABLE records (
    position INTEGER PRIMARY KEY, recorded_at INTEGER NOT NULL, key BLOB, value BLOB, id TEXT, type TEXT, source TEXT,
    subject TEXT, sequence INTEGER, correlation_id TEXT, causation_id TEXT, traceparent TEXT, headers TEXT,
    checksum INTEGER
);
-- Every 1024 offsets: all records before `position` are at most as late as newest_at. It makes reading by time cheap.
CREATE TABLE milestones (
    position INTEGER PRIMARY KEY, newest_at INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE owners (
    service TEXT NOT NULL, partition INTEGER NOT NULL, epoch INTEGER NOT NULL, owner TEXT NOT NULL,
    seen_at INTEGER NOT NULL, checksum INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (service, partition)
) WITHOUT ROWID;
{LOG_VIEW};
"""


_ARCHIVED = (
    "CREATE TABLE archived (number INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL, checksum INTEGER NOT NULL)"
)


def retire(connection: sqlite3.Connection, reason: str) -> None:
    """Make the file refuse every further record with a reason, also from processes that have it open.

    Raises: sqlite3.Error.
    """
    connection.execute(_refusal(reason))
    if retired(connection) is None:
        write_meta(connection, {_RETIRED: reason})


def _refusal(reason: str) -> str:
    quoted = reason.replace("'", "''")
    refuse = f"SELECT RAISE(ABORT, '{quoted}')"
    return f"CREATE TRIGGER IF NOT EXISTS {_RETIRED} BEFORE INSERT ON records BEGIN {refuse}; END"


def retired(connection: sqlite3.Connection) -> str | None:
    """Return the reason why a log accepts no more records, None when it does. Raises: sqlite3.Error."""
    return meta_value(connection, _RETIRED)


def foreign_texts(connection: sqlite3.Connection) -> list[str]:
    """Return the names in sqlite_schema whose text is not what a log writes, or that are missing.

    Raises: sqlite3.Error.
    """
    with closing(sqlite3.connect(":memory:")) as newest:
        for statement in (*_TABLES.split(";\n"), _ARCHIVED, _refusal(retired(connection) or "")):
            newest.execute(statement)
        expected = set(newest.execute(_TEXTS))
    there = set(connection.execute(_TEXTS))
    needed = {row[1] for row in expected} - {"archived", _RETIRED}
    foreign = {row[1] for row in there - expected if seal(*row) not in OLDER_TEXTS}
    return sorted(map(str, foreign | needed - {row[1] for row in there}))


def note_archived(connection: sqlite3.Connection, ends: Mapping[int, int] | None) -> None:
    """Record up to where an archive has the partitions, by number; None without an archive. Raises: sqlite3.Error."""
    if ends is None:
        connection.execute("DROP TABLE IF EXISTS archived")
        return
    connection.execute("DROP TABLE IF EXISTS archived")
    connection.execute(_ARCHIVED)
    rows = [(number, end, seal(number, end)) for number, end in ends.items()]
    connection.executemany("INSERT INTO archived VALUES (?, ?, ?)", rows)


def archived_ends(connection: sqlite3.Connection) -> dict[int, int] | None:
    """Return the ends last given to `note_archived`; a row that does not match its checksum lets nothing be dropped.

    Raises: sqlite3.Error.
    """
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'archived'").fetchone() is None:
        return None
    rows = connection.execute("SELECT number, next_offset, checksum FROM archived")
    return {number: end if seal(number, end) == checksum else 0 for number, end, checksum in rows}


def prepare(connection: sqlite3.Connection, path: Path) -> str:
    """Check that the file is a log, initialize it when it is new, upgrade it when it is older, and return its log_id.

    Raises: LogCorrupt, TailLost, LogVersionMismatch, LogReadOnly; sqlite3.Error.
    """
    if _is_empty(connection):
        _create(connection, path)
    if _is_log(connection) and version_of(connection) < FORMAT_VERSION:
        with Transaction(connection):
            if (version := version_of(connection)) < FORMAT_VERSION:  # no other process has upgraded it first
                upgrade(connection, version)
    check_version(connection, path)
    log_id = meta_value(connection, "log_id")
    if log_id is None:
        raise LogCorrupt(f"the log {path} has lost its log_id: restore it from a backup")
    return log_id


def _create(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise read_only(path, "its file system does not allow a write-ahead log")
    with Transaction(connection):
        if not _is_empty(connection):
            return  # another process initialized it first
        refuse_lost(path)
        for statement in _TABLES.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")
        write_meta(connection, {"log_id": token_hex(16), "created_at_ms": str(now_ms())})


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_schema").fetchone()[0])


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is not a log, or is newer than this, or of release 0.1.

    Raises: LogCorrupt, LogVersionMismatch, sqlite3.Error.
    """
    if not _is_log(connection):
        raise LogCorrupt(f"{path} is an SQLite database, but not a log of this library: give the log another path")
    version = version_of(connection)
    if version > FORMAT_VERSION:
        raise LogVersionMismatch(
            f"the log {path} has format version {version}, and this eventlib reads up to {FORMAT_VERSION}: it was "
            "written by a newer release; upgrade eventlib here"
        )
    if version < _OLDEST_READ:
        raise LogVersionMismatch(
            f"the log {path} has format version {version}, which is upgraded when it is opened: run `eventlib status`, "
            "and try again"
        )


def _is_log(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the format version of a log's file. Raises: sqlite3.Error."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
