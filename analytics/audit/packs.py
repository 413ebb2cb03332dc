"""A log's records in packs: many rows as one value, which a shuffle moves without looking into it.

What an archive has, workers read from its Parquet files themselves, so that no row goes through the JVM; other logs are
read by Spark's sources, and packed from there on.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter
from tempfile import TemporaryFile, gettempdir
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark import RDD
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as t

from analytics.asking import from_anywhere
from analytics.audit.application import Application
from analytics.audit.rows import RECORD, record_columns
from analytics.log import log
from eventlib.log.archive.files import read_manifest
from eventlib.log.archive.place import SCHEME, located, opened, place_of
from eventlib.log.archive.row_groups import unreadable

Pack = tuple[tuple[int, int], bytes]
"""The number of a group, a number by which the packs of a group are sorted, and what is packed."""

P = TypeVar("P", bound=tuple[object, ...])
V = TypeVar("V")

Packing = Callable[[Iterable[pa.RecordBatch]], Iterator[Pack]]
"""Makes packs of records, in a worker."""

_PACK = t.StructType([
    t.StructField("group", t.LongType()),
    t.StructField("order", t.LongType()),
    t.StructField("packed", t.BinaryType()),
])  # fmt: skip

_CODED = ["topic", "type", "source"]  # few values: a file has them in a dictionary
_TASK_ROWS = 250_000


class _Part(NamedTuple):
    """A row group of one of an archive's files."""

    path: str
    number: int
    rows: int


def packs(
    spark: SparkSession,
    url: str,
    application: Application,
    topics: Sequence[str],
    packing: Packing,
    columns: Sequence[str] = RECORD.names,
) -> "RDD[Pack]":
    """Return what `packing` makes of some columns of the records of some topics. Raises: as `analytics.log` does."""
    if not url.startswith(SCHEME):
        records = log(spark, url, topics=topics).select(*record_columns()).select(*columns)
        return records.mapInArrow(partial(_as_rows, packing=packing), _PACK).rdd.map(_as_pack)
    parts = _parts(url, topics)
    tasks = max(2 * spark.sparkContext.defaultParallelism, sum(part.rows for part in parts) // _TASK_ROWS)
    read = partial(_read, url=from_anywhere(url), application=application, packing=packing, columns=columns)
    return spark.sparkContext.parallelize(parts, max(1, min(len(parts), tasks))).mapPartitions(read)


def in_order(rows: "RDD[tuple[P, V]]", count: int, group: Callable[[P], int]) -> "RDD[tuple[P, V]]":
    """Return rows in so many partitions, by the group of their places, and sorted by place in each; more than fits is on disk."""
    found: RDD[tuple[P, V]] = rows.repartitionAndSortWithinPartitions(count, group)  # type: ignore[call-overload]  # its stubs know no order of tuples
    return found


def packs_in_order(packs: "RDD[Pack]", groups: int) -> "RDD[Pack]":
    """Return packs in as many partitions as there are groups, sorted in each."""
    return packs.partitionBy(groups, _group_of).mapPartitions(sorted_on_disk)


def _group_of(place: tuple[int, int]) -> int:
    return place[0]


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


def _as_rows(batches: Iterable[pa.RecordBatch], packing: Packing) -> Iterator[pa.RecordBatch]:
    for (group, order), data in packing(batches):
        yield pa.RecordBatch.from_pydict({"group": [group], "order": [order], "packed": [data]})


def _as_pack(row: Row) -> Pack:
    return (row.group, row.order), bytes(row.packed)


def _parts(url: str, topics: Sequence[str]) -> list[_Part]:
    place, found = place_of(url), list[_Part]()
    for file in read_manifest(place).files:
        if file.topic in topics:
            try:
                metadata = pq.read_metadata(opened(place, file.path))
            except (OSError, pa.ArrowException) as error:
                raise unreadable(located(place, file.path), error) from error
            groups = range(metadata.num_row_groups)
            found += [_Part(file.path, number, metadata.row_group(number).num_rows) for number in groups]
    return found


def _read(
    parts: Iterable[_Part], url: str, application: Application, packing: Packing, columns: Sequence[str]
) -> Iterator[Pack]:
    application.load()  # with the settings that a store is opened with
    return packing(_batches(parts, url, columns))


def _batches(parts: Iterable[_Part], url: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield row groups of an archive as records. Raises: LogCorrupt."""
    place = place_of(url)
    stored = ["recorded_at" if name == "at_ms" else name for name in columns]
    for path, of_file in groupby(parts, key=attrgetter("path")):
        try:
            with pq.ParquetFile(opened(place, path), page_checksum_verification=True, read_dictionary=_CODED) as file:
                for part in of_file:
                    table = file.read_row_group(part.number, columns=stored, use_threads=False)
                    (rows,) = table.combine_chunks().to_batches()
                    values = [rows[name].cast(pa.int64()) if name == "recorded_at" else rows[name] for name in stored]
                    yield pa.RecordBatch.from_arrays(values, names=[*columns])
        except (OSError, pa.ArrowException) as error:
            raise unreadable(located(place, path), error) from error
