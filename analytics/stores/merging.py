"""Merges the small files that many increments leave in a table: reading one large file costs less."""

from collections.abc import Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import IO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.projection import write_rows

F = TypeVar("F")

_TIMES = 8
"""This many files of about one size are merged to one, so that a row is rewritten rarely: logarithmic in the table."""

_SMALLEST_BYTES = 64_000
_LARGE_BYTES = 64_000_000


def merge_small(directory: Path, name: str) -> None:
    """Merge a table's small files, where there are many of one size; new files' names begin with `name`."""
    there = {path: path.stat().st_size for path in sorted(directory.glob("*.parquet"))}
    for about, files in small_files(there):
        write_as_one(files, directory / f"{name}-merged{about}.parquet")
        for path in files:
            path.unlink()


def small_files(sizes: Mapping[F, int]) -> Iterator[tuple[int, list[F]]]:
    """Yield the files that are to be one, with a number for their size: small ones, where there are many of one size."""
    by_size = dict[int, list[F]]()
    for file, size in sizes.items():
        if size < _LARGE_BYTES:
            by_size.setdefault(int(log(max(size, _SMALLEST_BYTES) / _SMALLEST_BYTES, _TIMES)), []).append(file)
    yield from ((about, files) for about, files in by_size.items() if len(files) >= _TIMES)


def write_as_one(files: Sequence[Path | IO[bytes]], target: Path) -> None:
    """Write the rows of files as one file."""
    write_rows(_groups(files), pq.ParquetFile(files[0]).schema_arrow, target)


def _groups(files: Sequence[Path | IO[bytes]]) -> Iterator[pa.Table]:
    for file in files:
        with pq.ParquetFile(file) as opened:
            for group in range(opened.num_row_groups):
                yield opened.read_row_group(group)
