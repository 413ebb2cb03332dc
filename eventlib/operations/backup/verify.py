"""Verifies a copy of a log: records against their checksums, partitions against their digests."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from eventlib.log.checksum import MASK, is_as_written, partition_seed
from eventlib.log.sqlite.damage import COLUMNS, as_it_stands
from eventlib.log.sqlite.packing import checksums, extent
from eventlib.log.sqlite.schema import check_version, version_of
from eventlib.log.sqlite.sealed import meta_value, partition_rows
from eventlib.log.sqlite.state import OFFSET_BITS
from eventlib.log.sqlite.upgrade import show_as_newest
from eventlib.operations.backup.manifest import PartitionEnd

_ROWS = f"""
SELECT position - :base, {", ".join(COLUMNS)}
FROM {{schema}}.records WHERE position >= :base AND position < :top ORDER BY position
"""  # noqa: S608  names of this package
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
        if version_of(connection) == 1:
            show_as_newest(connection)
        damaged, records = damages_of(connection, "main")
        return Content(meta_value(connection, "log_id") or "", partitions_of(connection), records, damaged)


def partitions_of(connection: sqlite3.Connection) -> tuple[PartitionEnd, ...]:
    """Return where a log's partitions end, except where that is damaged. Raises: sqlite3.Error."""
    rows = [row for row, damage in partition_rows(connection) if not damage]
    return tuple(
        PartitionEnd(topic=topic, partition=partition, end=end, dense_from=dense_from, digest=digest)
        for _, topic, partition, end, _, _, _, _, dense_from, _, digest in rows
    )


def damages_of(connection: sqlite3.Connection, schema: str) -> tuple[tuple[str, ...], int]:
    """Read all records of an attached database; return the damage, and how many records there are.

    In `main`, a whole log, missing records are found as well; other databases hold only added records. Raises:
    sqlite3.Error.
    """
    found, records = list[str](), 0
    for row, damage in [*partition_rows(connection)]:
        partition = _Partition(connection, row, schema)
        found += [f"{row[1]}/{row[2]}: {damage}"] if damage else [*partition.damages()]
        records += partition.records
    return tuple(found[:_MOST_NAMED]), records


@contextmanager
def untouched(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a file that has no writer, so that no file is created beside it. Raises: sqlite3.Error."""
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?immutable=1", uri=True, isolation_level=None)
    connection.text_factory = as_it_stands
    try:
        yield connection
    finally:
        connection.close()


class _Partition:
    """One partition's records, read once."""

    def __init__(self, connection: sqlite3.Connection, row: tuple[Any, ...], schema: str) -> None:
        number, self._topic, self._number, self._end, _, _, _, _, self._dense_from, self._checked_from, self._digest = (
            row
        )
        self.records = 0
        self._name = f"{self._topic}/{self._number}"
        self._connection = connection
        self._schema = schema
        self._range = {"base": number << OFFSET_BITS, "top": number + 1 << OFFSET_BITS}

    def damages(self) -> Iterator[str]:
        """Yield the damage."""
        seed, total, expected = partition_seed(self._topic, self._number), 0, self._dense_from
        is_whole = self._schema == "main"
        try:
            for offset, *columns, checksum in self._connection.execute(_ROWS.format(schema=self._schema), self._range):
                records, offsets = extent(columns[-1])
                first = offset - max(offsets - 1, 0)
                self.records += records or 1
                if is_whole and offset >= self._dense_from:
                    if first > expected or offset < expected:
                        yield f"{self._name}/{expected}: no record, up to {first}"
                    expected = offset + 1
                if checksum is None and offset < self._checked_from:
                    continue
                total += checksums((*columns, checksum))
                if not is_as_written(seed, offset, columns, checksum):
                    yield f"{self._name}/{offset}: does not match its checksum"
        except sqlite3.DatabaseError as error:
            yield f"{self._name}: {error}"
            return
        if is_whole and expected < self._end:
            yield f"{self._name}/{expected}: no record, up to {self._end}"
        if is_whole and total & MASK != self._digest:
            yield f"{self._name}: its records do not add up to its digest"
