"""An SQLite log as a DataFrame: ranges of the file, read in parallel as Arrow batches."""

import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.batches import LAST_MS, Range, headers_array, text_array, times_array, unpacked
from analytics.schema import STORED, UNREADABLE
from analytics.selection import Selection
from analytics.verifying import StateRow, Verifier, state_of, state_rows
from eventlib.errors import LogUnavailable
from eventlib.log.sqlite.connection import file_uri
from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.packing import MOST
from eventlib.log.sqlite.state import OFFSET_BITS, PartitionState
from eventlib.model.record import Record, text_of
from eventlib.values import from_ms, to_ms

if TYPE_CHECKING:
    from adbc_driver_sqlite import dbapi

_AT_ONCE = 100_000
"""How many offsets a Spark task reads: some tenths of a second of work."""


_ARROW = to_arrow_schema(STORED)
# `pa.array` would import pandas.
_NONE = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in _ARROW.types], schema=_ARROW)

# A column whose first rows are all NULL would be inferred as numeric, so none is NULL until it is in Arrow.
_TEXTS = ("type", "id", "source", "subject", "correlation_id", "causation_id", "traceparent", "headers")
# Texts are read as bytes, since damaged ones may not be UTF-8; and so that a damaged row's types equal the others'.
_SELECT = f"""SELECT position, CAST(recorded_at AS INTEGER) AS recorded_at, key IS NOT NULL AS has_key,
    ifnull(CAST(key AS BLOB), x'') AS key, value IS NOT NULL AS has_value, ifnull(CAST(value AS BLOB), x'') AS value,
    ifnull(CAST(sequence AS INTEGER), -1) AS sequence,
    {", ".join(f"ifnull(CAST({name} AS BLOB), x'') AS {name}" for name in _TEXTS)},
    ifnull(CAST(checksum AS INTEGER), -1) AS checksum FROM records"""  # noqa: S608  names of this file


def read(spark: SparkSession, url: str, selection: Selection) -> DataFrame:
    """Return what `analytics.log` does, without schema ids. Raises: LogUnavailable."""
    parts = sources(Path(url.removeprefix("sqlite:///")).absolute(), selection)
    if not parts:
        return spark.createDataFrame([], STORED)
    numbers = spark.range(0, len(parts), 1, len(parts))  # one task for each
    return numbers.mapInArrow(partial(_read_parts, parts=parts), STORED)


def _read_parts(
    numbers: Iterable[pa.RecordBatch], parts: Sequence[Callable[[], Iterator[pa.RecordBatch]]]
) -> Iterator[pa.RecordBatch]:
    return (batch for rows in numbers for number in rows.column(0).to_pylist() for batch in parts[number]())


def sources(path: Path, selection: Selection) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
    """Return what reads the parts of what `read` does, in any process. Raises: as `read` does."""
    states = _partitions(path)
    shares = _shares(_ranges(map(state_of, states.values()), selection))
    return [partial(_read, path, states, share, selection) for share in shares]


def _shares(ranges: Iterable[Range]) -> list[list[Range]]:
    """Distribute ranges: a Spark task costs more than a small partition does."""
    shares, size = list[list[Range]](), _AT_ONCE
    for each in ranges:
        if size >= _AT_ONCE:
            shares.append([])
            size = 0
        shares[-1].append(each)
        size += each.end - each.first
    return shares


def _read(
    path: Path, states: Mapping[int, StateRow], ranges: Sequence[Range], selection: Selection
) -> Iterator[pa.RecordBatch]:
    more, values = _condition(selection)
    sql = f"{_SELECT} WHERE position >= ? AND position < ?{more}"
    with closing(Batches(path)) as batches:
        for each in ranges:
            base = each.number << OFFSET_BITS
            verifier = Verifier(path, state_of(states[each.number]), each.first, is_whole=not more)
            first, suspects = each.first, list[int]()
            while first < each.end:
                # The last records may be in a batch that ends later.
                for batch in batches.of(sql, (base + first, base + each.end + MOST - 1, *values)):
                    suspects = [offset for offset in verifier.suspects(batch) if each.first <= offset < each.end]
                    rows = _records(batch, each, {*suspects}, selection)
                    if suspects:
                        first = batch["position"][-1].as_py() - base + 1
                        break
                    yield from _slices(rows)
                if not suspects:
                    break
                batches.close()
                yield from _slices(_with(rows, _selected(verifier.read(suspects), selection), suspects))
                suspects = []
            if missing := verifier.rest(each.end):
                batches.close()
                yield _with(_NONE, verifier.read(missing), missing)


def _slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (rows.slice(first, BATCH_ROWS) for first in range(0, rows.num_rows, BATCH_ROWS))


def _records(batch: pa.RecordBatch, place: Range, suspects: Container[int], selection: Selection) -> pa.RecordBatch:
    """Return the records in a batch of rows of the file, each of which is one record or a batch of several."""
    is_packed = pc.starts_with(batch["headers"], "{")
    if not pc.any(is_packed).as_py():
        return _before(_canonical(batch, place), place.end)
    singles = _before(_canonical(batch.filter(pc.invert(is_packed)), place), place.end)
    packed = unpacked(batch.filter(is_packed), place, suspects, selection)
    if not (singles.num_rows and packed.num_rows):
        return packed if packed.num_rows else singles
    return pa.Table.from_batches([singles, packed]).sort_by("offset").combine_chunks().to_batches()[0]


def _selected(records: Iterable[Record], selection: Selection) -> Iterator[Record]:
    """Yield the selected records, and those that cannot be read."""
    for record in records:
        at = from_ms(record.timestamp_ms)
        is_in_time = (selection.since is None or at >= selection.since) and (
            selection.until is None or at < selection.until
        )
        if any(name == UNREADABLE for name, _ in record.headers) or (
            is_in_time and (not selection.types or record.type in selection.types)
        ):
            yield record


def _before(rows: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """Return the rows before an offset, of rows in order."""
    if rows.num_rows and rows["offset"][-1].as_py() >= end:
        return rows.filter(pc.less(rows["offset"], end))
    return rows


def _with(rows: pa.RecordBatch, instead: Iterable[Record], offsets: Sequence[int]) -> pa.RecordBatch:
    """Return rows with those at some offsets replaced."""
    others = [
        record.asdict()
        | {
            "recorded_at": min(max(record.timestamp_ms, -LAST_MS), LAST_MS) * 1_000,
            "key": None if record.key is None else text_of(record.key),
            "headers": [{"name": name, "value": value} for name, value in record.headers],
        }
        for record in instead
    ]
    kept = rows.filter(pc.invert(pc.is_in(rows["offset"], pa.array(offsets, pa.int64()))))
    arrays = [pa.array([each[field.name] for each in others], field.type) for field in rows.schema]
    found = pa.Table.from_batches([kept, pa.RecordBatch.from_arrays(arrays, schema=rows.schema)])
    return found.sort_by("offset").combine_chunks().to_batches()[0] if found.num_rows else kept


def _canonical(batch: pa.RecordBatch, place: Range) -> pa.RecordBatch:
    """Return a batch of rows of the file in the declared form."""
    rows = batch.num_rows
    found = {name: batch.column(name) for name in batch.schema.names}
    texts = {name: text_array(found[name]) for name in ("key", *_TEXTS)}
    texts = {
        name: text if name == "key" else pc.if_else(pc.equal(text, ""), None, text) for name, text in texts.items()
    }
    columns = {
        "topic": pa.repeat(place.topic, rows),
        "partition": pa.repeat(pa.scalar(place.partition, pa.int32()), rows),
        "offset": pc.subtract(found["position"], place.number << OFFSET_BITS),
        "recorded_at": times_array(found["recorded_at"]),
        "key": pc.if_else(pc.equal(found["has_key"], 1), texts.pop("key"), None),
        "value": pc.if_else(pc.equal(found["has_value"], 1), found["value"], None),
        "sequence": pc.if_else(pc.less(found["sequence"], 0), None, found["sequence"]),
        "headers": headers_array(texts.pop("headers")),
        **texts,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in STORED.names], names=STORED.names)


def _partitions(path: Path) -> dict[int, StateRow]:
    """Return the file's current partitions by number."""
    if not path.is_file():
        raise LogUnavailable(f"there is no log at {path}: name one as sqlite:///relative.db or sqlite:////absolute.db")
    try:
        with closing(sqlite3.connect(file_uri(path, reads=True), uri=True)) as connection:
            return {row.number: row for row in state_rows(connection, path)}
    except sqlite3.Error as error:
        raise LogUnavailable(f"the log {path} cannot be read: {error}") from error


def _ranges(states: Iterable[PartitionState], selection: Selection) -> list[Range]:
    """Return the ranges to read."""
    return [
        Range(state.number, state.topic.name, state.partition, first, min(first + _AT_ONCE, span.stop))
        for state in states
        if (span := selection.span((state.topic.name, state.partition), 0, state.end)) is not None
        for first in range(span.start, span.stop, _AT_ONCE)
    ]


def _condition(selection: Selection) -> tuple[str, list[Any]]:
    """Return the condition on rows in SQL, and its values; what is in batches is chosen later."""
    condition, values = "", list[Any]()
    if selection.types:
        condition += f" AND type IN ({', '.join('?' * len(selection.types))})"
        values += selection.types
    if selection.since is not None:
        condition += " AND recorded_at >= ?"
        values.append(to_ms(selection.since))
    if selection.until is not None:
        condition += " AND recorded_at < ?"
        values.append(to_ms(selection.until))
    return (f" AND ({IS_BATCH} OR 1{condition})" if condition else ""), values


BATCH_ROWS = 16_384
_LOCKED_MS = 30_000


class Batches:
    """A log's file, read as Arrow batches; open from the first query on, until it is closed.

    ADBC has an SQLite of its own. While both have one file open in one process, whichever closes it first drops the other's
    locks, and another process may then change what is being read: so it is closed before Python's is asked.
    Source: https://sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application".
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: dbapi.Connection | None = None

    def of(self, sql: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield a query's rows."""
        with self._open().cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            cursor.execute(sql, values)
            yield from cursor.fetch_record_batch()

    def _open(self) -> "dbapi.Connection":
        """Wait for locks: the first process to open a file, and the last to close it, hold one a moment."""
        from adbc_driver_sqlite import dbapi  # which imports pandas

        if self._connection is None:
            self._connection = dbapi.connect(file_uri(self._path, reads=True))
            with self._connection.cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {_LOCKED_MS}")
                cursor.fetchall()
        return self._connection

    def close(self) -> None:
        """Close the file, and what is read of it; a next query opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
