"""A log's records in packs: many rows as one value, which a shuffle moves without looking into it.

A log in files is read by the workers themselves, so that no row goes through the JVM; one on Kafka by Spark's source, and
packed from there on.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from tempfile import TemporaryFile, gettempdir
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from analytics.audit.application import Application
from analytics.audit.rows import RECORD, record_columns
from analytics.log import log
from analytics.selection import Only, Selection
from analytics.sources import Source, is_in_files, records_in, sources_of

Pack = tuple[tuple[int, int], bytes]
"""The number of a group, a number by which the packs of a group are sorted, and what is packed."""

P = TypeVar("P", bound=tuple[object, ...])
V = TypeVar("V")

Packing = Callable[[Iterable[pa.RecordBatch]], Iterator[Pack]]
"""Makes packs of records, in a worker."""

PACK = t.StructType([
    t.StructField("place", t.IntegerType()),
    t.StructField("group", t.LongType()),
    t.StructField("order", t.LongType()),
    t.StructField("packed", t.BinaryType()),
])  # fmt: skip
"""A pack as a row; `place` is what Spark hashes to put each group into a partition of its own."""

_TASKS_OF_A_CORE = 2
_CANDIDATES = 64  # candidates for each partition, so that each gets one


def packs(  # noqa: PLR0913  what is read, and what is made of it
    spark: SparkSession,
    url: str,
    application: Application,
    only: Only,
    packing: Packing,
    groups: int,
    *,
    columns: Sequence[str] = RECORD.names,
) -> DataFrame:
    """Return what `packing` makes of some columns of a log's records, as rows of `PACK`, to be `gathered`.

    Raises: as `analytics.log` does.
    """
    made = partial(packed_rows, packing=packing, groups=groups)
    if not is_in_files(url):
        return log(spark, url, **only).select(*record_columns()).select(*columns).mapInArrow(made, PACK)
    tasks = _TASKS_OF_A_CORE * spark.sparkContext.defaultParallelism
    sources, _ = sources_of(url, Selection.of(**only), tasks)
    read = partial(_read, sources=sources, application=application, columns=columns, made=made)
    return spark.range(0, len(sources), 1, max(1, len(sources))).mapInArrow(read, PACK)


def gathered(packs: DataFrame, groups: int) -> DataFrame:
    """Return packs in as many partitions as there are groups."""
    return packs.repartition(groups, "place")


def packs_of(rows: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
    """Yield the packs in rows of `PACK`."""
    for batch in rows:
        _, groups, orders, packed = (column.to_pylist() for column in batch.columns)
        yield from zip(zip(groups, orders, strict=True), packed, strict=True)


def as_packs(packs: DataFrame) -> "RDD[Pack]":
    """Return packs for what is no query."""
    return packs.rdd.map(_as_pack)


def _as_pack(row: Sequence[object]) -> Pack:
    _, group, order, data = row
    return (group, order), bytes(data)  # type: ignore[return-value,call-overload]  # as PACK says


def packed_rows(batches: Iterable[pa.RecordBatch], packing: Packing, groups: int) -> Iterator[pa.RecordBatch]:
    """Yield what is made of records as rows of `PACK`."""
    places = places_of(groups)
    for (group, order), data in packing(batches):
        row = {
            "place": pa.array([places[group]], pa.int32()),
            "group": pa.array([group]),
            "order": pa.array([order]),
            "packed": pa.array([data], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(row)


def _read(
    numbers: Iterable[pa.RecordBatch],
    sources: Sequence[Sequence[Source]],
    application: Application,
    columns: Sequence[str],
    made: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    application.load()  # with the settings that a store is opened with
    mine = (source for batch in numbers for number in batch.column(0).to_pylist() for source in sources[number])
    return made(batch for source in mine for batch in records_in(source, columns))


def places_of(groups: int) -> Sequence[int]:
    """Return a number for each group that gives it a partition of its own: Spark's hash puts several plain ones into one."""
    found = {hash_in_spark(n) % groups: n for n in range(groups * _CANDIDATES)}
    return [found[group] for group in range(groups)]


def hash_in_spark(number: int) -> int:
    """Return Spark's own hash of an `int`, which a shuffle goes by: to ask for it takes a job.

    Source: MurmurHash3_x86_32, with the seed 42 of Spark's `hash`.
    """
    mixed = 42 ^ _rotated(number * 0xCC9E2D51, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4  # the bytes of an int
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (_WORD + 1) if mixed >> 31 else mixed


_WORD = (1 << 32) - 1


def _rotated(word: int, bits: int) -> int:
    word &= _WORD
    return word << bits & _WORD | word >> 32 - bits


def in_order(rows: "RDD[tuple[P, V]]", count: int, group: Callable[[P], int]) -> "RDD[tuple[P, V]]":
    """Return rows in so many partitions, by the group of their places, and sorted by place in each; more than fits is on disk."""
    found: RDD[tuple[P, V]] = rows.repartitionAndSortWithinPartitions(count, group)  # type: ignore[call-overload]  # its stubs know no order of tuples
    return found


def sorted_on_disk(packs: Iterable[Pack]) -> Iterator[Pack]:
    """Yield packs in order; however many there are, memory has their places only.

    Spark's own sort has half a gigabyte in memory before it spills, and compresses that in Python.
    """
    places, end = list[tuple[tuple[int, int], int, int]](), 0
    directory = os.environ.get("SPARK_LOCAL_DIRS", gettempdir()).partition(",")[0]
    with TemporaryFile(dir=directory, buffering=0) as file:
        for place, data in packs:
            places.append((place, end, len(data)))
            end += len(data)
            file.write(data)
        places.sort()
        for place, first, length in places:
            yield place, os.pread(file.fileno(), length, first)


def grouped(rows: pa.RecordBatch, groups: NDArray[np.uint64], count: int) -> Iterator[Pack]:
    """Yield the rows of each of `count` groups in a pack of its own, in the order that they have."""
    by_group = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[by_group], np.arange(count + 1, dtype=np.uint64))
    rows = rows.take(pa.array(by_group))
    for group, (first, end) in enumerate(pairwise(ends.tolist())):
        if first < end:
            yield (group, 0), packed(rows.slice(first, end - first))


def packed(rows: pa.RecordBatch) -> bytes:
    """Return rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def unpacked(rows: bytes) -> pa.RecordBatch:
    """Return rows that `packed` has packed."""
    with pa.ipc.open_stream(rows) as stream:
        return stream.read_next_batch()
