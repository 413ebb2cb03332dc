"""Rows in shards by a key: written by Spark's workers to files, and read again with all rows of a key together.

What Spark's shuffle does, without rows of Spark's on the way: each file has for every portion of rows one batch a shard,
which the reader of that shard maps into memory.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from analytics.hashing import hashes

_ROWS_AT_ONCE = 131_072


class ShardWriter:
    """Writes rows to a file, by their shard among `count`; those of equal keys have equal ones."""

    def __init__(self, path: Path, schema: pa.Schema, key: str, count: int) -> None:
        self._file = pa.ipc.new_file(path, schema)
        self._schema, self._key, self._count = schema, key, count
        self._waiting, self._rows = list[pa.Table](), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Finish the file."""
        if kind is None and self._rows:
            self._write()
        self._file.close()

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= _ROWS_AT_ONCE:
            self._write()

    def _write(self) -> None:
        rows = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._rows = [], 0
        shards = hashes(rows[self._key].combine_chunks()) % np.uint64(self._count)
        order = np.argsort(shards, kind="stable")
        ends = np.searchsorted(shards[order], np.arange(self._count + 1))
        (batch,) = rows.take(pa.array(order)).combine_chunks().to_batches()
        for first, end in pairwise(ends):
            self._file.write_batch(batch.slice(first, end - first))


def shard(paths: Iterable[Path], number: int, count: int, schema: pa.Schema) -> pa.Table:
    """Return the rows of one shard of several files."""
    return pa.Table.from_batches([batch for path in paths for batch in batches(path, number, count)], schema)


def batches(path: Path, number: int = 0, count: int = 1) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file that have the rows of one of `count` shards."""
    with pa.memory_map(str(path)) as mapped:
        opened = pa.ipc.open_file(mapped)
        for each in range(number, opened.num_record_batches, count):
            yield opened.get_batch(each)
