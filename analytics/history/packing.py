"""Reads the packed rows of a fold."""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as t

CARRIED = "_carried"
"""The column of packed rows with what a later fold goes on from."""


def unpacked(found: DataFrame, schema: t.StructType) -> DataFrame:
    """Return the rows that are packed in the column `packed`, with these columns of them."""
    return found.select("packed").mapInArrow(partial(_unpacked, names=schema.names), schema)


def carried_in(packed: bytes) -> Iterator[bytes]:
    """Yield what a later fold goes on from."""
    with pa.ipc.open_stream(packed) as stream:
        for batch in stream:
            if CARRIED in batch.schema.names:
                yield from (each for each in batch.column(CARRIED).to_pylist() if each is not None)


def _unpacked(batches: Iterable[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch.column(0):
            with pa.ipc.open_stream(packed.as_buffer()) as stream:
                yield from (each.select(names) for each in stream)
