"""What was added to a log and removed from it since a backup, in a file of its own, and how it is applied.

Partitions only grow at their end, and lose records by retention, compaction and deletion. A digest shows whether one has
lost any: if not, it is the sum of the old and the added records; otherwise the whole partition is copied again.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from eventlib.errors import LogCorrupt
from eventlib.log.base import TopicPartition
from eventlib.log.checksum import MASK
from eventlib.log.sqlite.batches import delete_to, starts_before
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.format import FORMAT_VERSION
from eventlib.log.sqlite.schema import retire, retired, version_of
from eventlib.log.sqlite.sealed import digest_of, meta_value
from eventlib.log.sqlite.state import OFFSET_BITS, PartitionState
from eventlib.log.sqlite.upgrade import upgrade
from eventlib.model.topic import Topic
from eventlib.operations.backup.manifest import Backup, Manifest, PartitionEnd, chain
from eventlib.operations.backup.verify import Content, damages_of, partitions_of

_TABLES = ("meta", "topics", "partitions", "milestones", "owners", "archived")
_MOST_INCREMENTS = 100
_SPANS = (
    "CREATE TABLE increment.spans (number INTEGER PRIMARY KEY, kept_from INTEGER NOT NULL, taken_from INTEGER NOT NULL)"
)
_NUMBERS = """
SELECT p.number, p.topic, p.partition, p.next_offset, p.dense_from, p.checked_from, p.digest, ifnull(t.compacted, 0)
FROM main.partitions p LEFT JOIN main.topics t ON t.name = p.topic
"""
_NAMES = "SELECT topic, partition FROM main.partitions WHERE number = ?"


def increment_fits(directory: Path, before: Backup, log: Path) -> bool:
    """Return whether an increment on a backup is possible, and smaller than a full one. Raises: sqlite3.Error."""
    try:
        backups = chain(directory)
    except LogCorrupt:
        return False
    with closing(connect(log)) as connection:
        is_same = meta_value(connection, "log_id") == before.manifest.log_id
        if not is_same or version_of(connection) != FORMAT_VERSION or before.manifest.damaged:
            return False
        ends = before.manifest.ends
        rows = connection.execute("SELECT topic, partition, next_offset FROM partitions")
        if any(end < ends[topic, p].end for topic, p, end in rows if (topic, p) in ends):
            return False
    full, *increments = (each.manifest.bytes for each in backups)
    return len(increments) < _MOST_INCREMENTS and sum(increments) < full


def write_increment(log: Path, to: Path, before: Manifest) -> Content:
    """Write the changes since a backup, as of one point in time; return the log's content then. Raises: sqlite3.Error."""
    with closing(connect(log)) as connection:
        connection.execute("ATTACH ? AS increment", (str(to),))
        connection.execute("PRAGMA increment.journal_mode=OFF")
        connection.execute("PRAGMA increment.synchronous=OFF")
        connection.execute("BEGIN")
        for name in _TABLES:
            if _has(connection, "main", name):
                connection.execute(f"CREATE TABLE increment.{name} AS SELECT * FROM main.{name}")  # noqa: S608  names of this file
        connection.execute("CREATE TABLE increment.records AS SELECT * FROM main.records LIMIT 0")
        connection.execute(_SPANS)
        for number, kept_from, taken_from, end in _spans(connection, before.ends):
            base = number << OFFSET_BITS
            connection.execute("INSERT INTO increment.spans VALUES (?, ?, ?)", (number, kept_from, taken_from))
            connection.execute(
                "INSERT INTO increment.records SELECT * FROM main.records WHERE position >= ? AND position < ?",
                (base + taken_from, base + end),
            )
        found = partitions_of(connection)
        connection.execute("COMMIT")
        damaged, records = damages_of(connection, "increment.records")
    return Content(before.log_id, found, records, damaged)


def put_on_top(connection: sqlite3.Connection, increment: Path) -> None:
    """Bring a copy of a log from one backup to the next. Raises: sqlite3.Error."""
    connection.execute("ATTACH ? AS increment", (f"file:{increment}?immutable=1",))
    connection.execute("BEGIN IMMEDIATE")
    for number, kept_from, taken_from in connection.execute("SELECT * FROM increment.spans").fetchall():
        base, top = number << OFFSET_BITS, number + 1 << OFFSET_BITS
        connection.execute("DELETE FROM main.records WHERE position >= ? AND position < ?", (base + taken_from, top))
        for topic, partition in connection.execute(_NAMES, (number,)).fetchall():
            delete_to(connection, PartitionState(Topic(topic), partition, number), base + kept_from - 1)
    connection.execute("INSERT INTO main.records SELECT * FROM increment.records")
    for name in _TABLES:
        if not _has(connection, "increment", name):
            connection.execute(f"DROP TABLE IF EXISTS main.{name}")
            continue
        if not _has(connection, "main", name):
            (sql,) = connection.execute("SELECT sql FROM increment.sqlite_schema WHERE name = ?", (name,)).fetchone()
            connection.execute(sql)
        connection.execute(f"DELETE FROM main.{name}")  # noqa: S608  names of this file
        connection.execute(f"INSERT INTO main.{name} SELECT * FROM increment.{name}")  # noqa: S608  names of this file
    upgrade(connection, version_of(connection))
    reason = retired(connection)
    if reason is not None:
        retire(connection, reason)
    connection.execute("COMMIT")
    connection.execute("DETACH increment")


def _spans(
    connection: sqlite3.Connection, before: Mapping[TopicPartition, PartitionEnd]
) -> list[tuple[int, int, int, int]]:
    """Return for each partition the offset before which its records go, where the copy starts, and where it ends."""
    found = list[tuple[int, int, int, int]]()
    for number, topic, partition, end, dense_from, checked_from, digest, compacted in connection.execute(
        _NUMBERS
    ).fetchall():
        base, known = number << OFFSET_BITS, before.get((topic, partition))
        if known is None or starts_before(connection, base + known.end):  # it was packed since
            found.append((number, 0, 0, end))
            continue
        come = _sum(connection, base + known.end, base + end)
        is_first_format = (
            checked_from > 0 and compacted
        )  # records without a checksum are removed without a trace in the digest
        if known.dense_from == dense_from and not is_first_format and known.digest + come & MASK == digest:
            found.append((number, 0, known.end, end))
        elif checked_from == 0 and _sum(connection, base + dense_from, base + end) == digest and not compacted:
            found.append((number, dense_from, max(known.end, dense_from), end))
        else:
            found.append((number, end, 0, end))
    return found


def _sum(connection: sqlite3.Connection, first: int, end: int) -> int:
    return digest_of(connection, "position >= ? AND position < ?", (first, end))


def _has(connection: sqlite3.Connection, schema: str, table: str) -> bool:
    row = connection.execute(f"SELECT 1 FROM {schema}.sqlite_schema WHERE type = 'table' AND name = ?", (table,))  # noqa: S608  names of this file
    return row.fetchone() is not None
