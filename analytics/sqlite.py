"""An SQLite log as a DataFrame: ranges of the file, read side by side as Arrow batches."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from adbc_driver_sqlite import dbapi
from pyspark.sql import DataFrame, SparkSession

from analytics.schema import STORED
from analytics.selection import Selection
from eventlib.errors import LogUnavailable
from eventlib.log.sqlite_schema import OFFSET_BITS, decode_headers
from eventlib.times import to_ms

_AT_ONCE = 100_000
"""How many offsets a task of Spark's reads: some tenths of a second of work."""

_BATCH = 16_384

_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))

# A column whose first rows are all NULL would be taken for one of numbers, so none is NULL until it is Arrow's.
_TEXTS = ("type", "id", "source", "subject", "correlation_id", "causation_id", "traceparent", "headers")
_SELECT = f"""SELECT position, recorded_at, key IS NOT NULL AS has_key, ifnull(CAST(key AS TEXT), '') AS key,
    value IS NOT NULL AS has_value, ifnull(value, x'') AS value, ifnull(sequence, -1) AS sequence,
    {", ".join(f"ifnull({name}, '') AS {name}" for name in _TEXTS)} FROM records"""  # noqa: S608  constants only


def read(spark: SparkSession, url: str, selection: Selection) -> DataFrame:
    """Return what `analytics.log` does, but for schema ids. Raises: LogUnavailable."""
    path = Path(url.removeprefix("sqlite:///")).absolute()
    shares = _shares(_ranges(path, selection))
    if not shares:
        return spark.createDataFrame([], STORED)
    numbers = spark.range(0, len(shares), 1, len(shares))  # a task for each
    return numbers.mapInArrow(partial(_read, path=path, shares=shares, condition=_condition(selection)), STORED)


class Range(NamedTuple):
    """Offsets of one partition, from `first` and before `end`; `number` is its place in the file."""

    number: int
    topic: str
    partition: int
    first: int
    end: int


def _shares(ranges: Iterable[Range]) -> list[list[Range]]:
    """Share ranges out: a task costs Spark more than a small partition does."""
    shares, size = list[list[Range]](), _AT_ONCE
    for each in ranges:
        if size >= _AT_ONCE:
            shares.append([])
            size = 0
        shares[-1].append(each)
        size += each.end - each.first
    return shares


def _read(
    numbers: Iterable[pa.RecordBatch], path: Path, shares: Sequence[Sequence[Range]], condition: tuple[str, list[Any]]
) -> Iterator[pa.RecordBatch]:
    more, values = condition
    sql = f"{_SELECT} WHERE position >= ? AND position < ?{more}"
    ranges = [each for batch in numbers for number in batch.column(0).to_pylist() for each in shares[number]]
    with closing(dbapi.connect(f"file:{quote(str(path))}?mode=ro")) as connection:
        for each in ranges:
            base = each.number << OFFSET_BITS
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH)})
                cursor.execute(sql, (base + each.first, base + each.end, *values))
                for batch in cursor.fetch_record_batch():
                    yield _canonical(batch, each)


def _canonical(batch: pa.RecordBatch, place: Range) -> pa.RecordBatch:
    """Return a batch of rows of the file in the form that Spark is told."""
    rows = batch.num_rows
    found = {name: batch.column(name) for name in batch.schema.names}
    texts = {name: pc.if_else(pc.equal(found[name], ""), None, found[name]) for name in _TEXTS}
    columns = {
        "topic": pa.repeat(place.topic, rows),
        "partition": pa.repeat(pa.scalar(place.partition, pa.int32()), rows),
        "offset": pc.subtract(found["position"], place.number << OFFSET_BITS),
        "recorded_at": pc.multiply(found["recorded_at"], 1_000).cast(pa.timestamp("us", "UTC")),
        "key": pc.if_else(pc.equal(found["has_key"], 1), found["key"], None),
        "value": pc.if_else(pc.equal(found["has_value"], 1), found["value"], None),
        "sequence": pc.if_else(pc.less(found["sequence"], 0), None, found["sequence"]),
        "headers": _headers(texts.pop("headers")),
        **texts,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in STORED.names], names=STORED.names)


def _headers(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):  # nearly always
        return pa.array([[]], _HEADERS).take(pa.repeat(0, len(texts)))
    pairs = [decode_headers(text.encode()) if text else () for text in texts.to_pylist()]
    return pa.array([[{"name": name, "value": value} for name, value in each] for each in pairs], _HEADERS)


def _ranges(path: Path, selection: Selection) -> list[Range]:
    """Return what is to be read, up to the end as of now."""
    if not path.is_file():
        raise LogUnavailable(f"there is no log at {path}: name one as sqlite:///relative.db or sqlite:////absolute.db")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT number, topic, partition, next_offset FROM partitions").fetchall()
    except sqlite3.Error as error:
        raise LogUnavailable(f"the log {path} cannot be read: {error}") from error
    return [
        Range(number, topic, partition, first, min(first + _AT_ONCE, span.stop))
        for number, topic, partition, end in rows
        if (span := selection.span((topic, partition), 0, end)) is not None
        for first in range(span.start, span.stop, _AT_ONCE)
    ]


def _condition(selection: Selection) -> tuple[str, list[Any]]:
    """Return the condition on rows in SQL, and its values."""
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
    return condition, values
