"""Reads an archive's files: a row group at a time, with a cache of recent ones."""

from collections import OrderedDict
from itertools import starmap
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventlib.errors import LogCorrupt
from eventlib.log.archive.files import DataFile
from eventlib.log.archive.place import located, opened
from eventlib.log.record import RECORD_FIELDS, Record
from eventlib.object_store import Place

_KEPT_BYTES = 256_000_000


class RowGroup(NamedTuple):
    """A row group's index in its file, and the range of its partitions and offsets."""

    number: int
    least: tuple[int, int]
    most: tuple[int, int]


class Groups:
    """The row groups of an archive's files."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._groups = dict[str, list[RowGroup]]()
        self._tables = OrderedDict[tuple[str, int], pa.Table]()
        self._bytes = 0

    def records(self, file: DataFile, partition: int, offset: int, limit: int) -> list[Record]:
        """Return up to `limit` of a file's records of a partition, from an offset on. Raises: LogCorrupt."""
        found = list[Record]()
        for group in self._of(file):
            if group.most[0] < partition or group.least[0] > partition:
                continue
            if group.least[0] == group.most[0] and group.most[1] < offset:
                continue
            if len(found) >= limit:
                break
            table = self._table(file, group.number)
            wanted = pc.and_(pc.equal(table["partition"], partition), pc.greater_equal(table["offset"], offset))
            rows = pc.indices_nonzero(wanted)
            found += _records(table.take(rows[: limit - len(found)]))
        return found

    def first_at(self, file: DataFile, partition: int, timestamp_ms: int) -> int | None:
        """Return the first offset of a file's partition that is not older than a time."""
        at = pa.scalar(timestamp_ms, pa.int64()).cast(pa.timestamp("ms", "UTC"))
        for group in self._of(file):
            if group.least[0] <= partition <= group.most[0]:
                table = self._table(file, group.number)
                wanted = pc.and_(pc.equal(table["partition"], partition), pc.greater_equal(table["recorded_at"], at))
                if pc.any(wanted).as_py():
                    return int(pc.min(pc.filter(table["offset"], wanted)).as_py())
        return None

    def _of(self, file: DataFile) -> list[RowGroup]:
        if file.path not in self._groups:
            with self._open(file) as opened:
                self._groups[file.path] = groups_of(opened)
        return self._groups[file.path]

    def _table(self, file: DataFile, index: int) -> pa.Table:
        key = file.path, index
        if key in self._tables:
            self._tables.move_to_end(key)
            return self._tables[key]
        with self._open(file) as opened:
            try:
                table = opened.read_row_group(index)
            except (OSError, pa.ArrowException) as error:
                raise unreadable(located(self._place, file.path), error) from error
        self._tables[key] = table
        self._bytes += table.nbytes
        while self._bytes > _KEPT_BYTES and len(self._tables) > 1:
            self._bytes -= self._tables.popitem(last=False)[1].nbytes
        return table

    def _open(self, file: DataFile) -> Any:
        try:
            return pq.ParquetFile(opened(self._place, file.path), page_checksum_verification=True)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(located(self._place, file.path), error) from error


def unreadable(path: object, error: Exception) -> LogCorrupt:
    """Return the error for an unreadable file."""
    return LogCorrupt(
        f"the archive's file {path} is not what was archived ({error}): bring it back from a copy of the archive, or "
        "archive the log again to another directory; `eventlib doctor --deep` names all such files"
    )


def groups_of(opened: Any) -> list[RowGroup]:
    """Return the row groups of an open Parquet file, by its statistics."""
    names = {opened.schema_arrow.names[i]: i for i in range(len(opened.schema_arrow.names))}
    found = list[RowGroup]()
    for index in range(opened.metadata.num_row_groups):
        group = opened.metadata.row_group(index)
        partitions, offsets = (group.column(names[name]).statistics for name in ("partition", "offset"))
        found.append(RowGroup(index, (partitions.min, offsets.min), (partitions.max, offsets.max)))
    return found


def _records(table: pa.Table) -> list[Record]:
    columns = [table[name] for name in RECORD_FIELDS if name != "timestamp_ms"]
    times = table["recorded_at"].cast(pa.int64()).to_pylist()
    values = [column.to_pylist() for column in columns]
    values.insert(RECORD_FIELDS.index("timestamp_ms"), times)
    values[-1] = [tuple((each["name"], each["value"]) for each in headers) for headers in values[-1]]
    return list(starmap(Record, zip(*values, strict=True)))
