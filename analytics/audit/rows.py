"""Records as rows, and back: the input and output of folds in Python."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.schema import HEADERS
from eventlib.log.archive.row_groups import column_values, header_pairs
from eventlib.model.record import Record

RECORD = t.StructType([
    t.StructField("topic", t.StringType()),
    t.StructField("partition", t.IntegerType()),
    t.StructField("offset", t.LongType()),
    t.StructField("at_ms", t.LongType()),
    t.StructField("key", t.StringType()),
    t.StructField("value", t.BinaryType()),
    t.StructField("id", t.StringType()),
    t.StructField("type", t.StringType()),
    t.StructField("source", t.StringType()),
    t.StructField("subject", t.StringType()),
    t.StructField("sequence", t.LongType()),
    t.StructField("correlation_id", t.StringType()),
    t.StructField("causation_id", t.StringType()),
    t.StructField("traceparent", t.StringType()),
    t.StructField("headers", HEADERS),
])  # fmt: skip
"""A `Record`'s fields as columns, in their order."""

WIDTH = len(RECORD)
_ARROW = to_arrow_schema(RECORD)

_OF_META = "traceparent"  # nothing else of a record is only for those who take an event's Meta


def columns_of(*, takes_meta: bool) -> list[str]:
    """Return the columns that a record is made of, for those who take an event's Meta or not; `whole` has all again."""
    return [name for name in RECORD.names if takes_meta or name != _OF_META]


def whole(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with all columns of `RECORD` first: what was not read is NULL."""
    there = {*rows.schema.names}
    columns = {
        each.name: rows[each.name] if each.name in there else pa.nulls(rows.num_rows, each.type) for each in _ARROW
    }
    others = {name: rows[name] for name in rows.schema.names if name not in columns}
    return rows if columns.keys() <= there else pa.RecordBatch.from_pydict(columns | others)


def record_columns() -> list[Column]:
    """Return the columns of `RECORD`, of a log as `analytics.log` gives it."""
    at_ms = f.unix_millis("recorded_at").alias("at_ms")
    return [at_ms if name == "at_ms" else f.col(name) for name in RECORD.names]


def records_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Yield rows that begin with a record as the record, its time (ms), and the columns after it."""
    for batch in batches:
        columns = [column_values(column) for column in batch.columns]
        if pa.types.is_string(batch.column(_KEY).type):
            columns[_KEY] = [None if key is None else key.encode() for key in columns[_KEY]]
        columns[_HEADERS] = header_pairs(batch.column(_HEADERS))
        records = starmap(Record, zip(*columns[:WIDTH], strict=True))
        yield from zip(records, columns[_TIME], *columns[WIDTH:], strict=True)


_TIME, _KEY, _HEADERS = (RECORD.names.index(name) for name in ("at_ms", "key", "headers"))


def batches_of(rows: Iterable[Sequence[Any]], schema: t.StructType, size: int = 4_096) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches."""
    arrow = to_arrow_schema(schema)
    chunk = list[Sequence[Any]]()
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield _batch(chunk, arrow)
            chunk = []
    if chunk:
        yield _batch(chunk, arrow)


def _batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema
    )
