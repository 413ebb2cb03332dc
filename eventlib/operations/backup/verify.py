"""Verifies a copy of a log: records against their checksums, partitions against their digests."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from eventlib.log.sqlite.damage import as_it_stands
from eventlib.log.sqlite.scan import Scan
from eventlib.log.sqlite.schema import check_version
from eventlib.log.sqlite.sealed import meta_value, partition_rows
from eventlib.operations.backup.manifest import PartitionEnd
from eventlib.operations.doctor.deep import finding

_MOST_NAMED = 1_000


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content: its log's id, where partitions end, how many records, and the damage."""

    log_id: str
    partitions: tuple[PartitionEnd, ...]
    records: int
    damaged: tuple[str, ...]


def content_of(path: Path) -> Content:
    """Read a whole log file that has no writer. Raises: LogCorrupt, LogVersionMismatch; sqlite3.Error."""
    with untouched(path) as connection:
        check_version(connection, path)
        damaged, records = damages_of(connection, "records")
        return Content(meta_value(connection, "log_id") or "", partitions_of(connection), records, damaged)


def partitions_of(connection: sqlite3.Connection) -> tuple[PartitionEnd, ...]:
    """Return where a log's partitions end, except where that is damaged. Raises: sqlite3.Error."""
    rows = [row for row, damage in partition_rows(connection) if not damage]
    return tuple(
        PartitionEnd(topic=topic, partition=partition, end=end, dense_from=dense_from, digest=digest)
        for _, topic, partition, end, _, _, _, _, dense_from, _, digest in rows
    )


def damages_of(connection: sqlite3.Connection, table: str) -> tuple[tuple[str, ...], int]:
    """Read all records of a table; return the damage, and how many records there are.

    In `records`, a whole log, missing records are found as well; other tables hold only added records. Raises: sqlite3.Error.
    """
    scan = Scan(connection, table=table)
    return tuple(finding(each).what for each in scan.run()[:_MOST_NAMED]), scan.records


@contextmanager
def untouched(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that has no writer, so that no file is created beside it. Raises: sqlite3.Error."""
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?immutable=1", uri=True, isolation_level=None)
    connection.text_factory = as_it_stands
    try:
        yield connection
    finally:
        connection.close()
