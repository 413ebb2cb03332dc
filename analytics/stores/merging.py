"""Merges the small files that many increments leave in a table: reading one large file costs less."""

from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analytics.projection import write_rows

_TIMES = 8
"""This many files of about one size are merged to one, so that a row is rewritten rarely: logarithmic in the table."""

_SMALLEST_BYTES = 64_000
_LARGE_BYTES = 64_000_000


def merge_small(directory: Path, name: str) -> None:
    """Merge a table's small files, where there are many of one size; new files' names begin with `name`."""
    by_size = dict[int, list[Path]]()
    for path in sorted(directory.glob("*.parquet")):
        size = path.stat().st_size
        if size < _LARGE_BYTES:
            by_size.setdefault(int(log(max(size, _SMALLEST_BYTES) / _SMALLEST_BYTES, _TIMES)), []).append(path)
    for about, files in by_size.items():
        if len(files) >= _TIMES:
            _write(files, directory / f"{name}-merged{about}.parquet")
            for path in files:
                path.unlink()


def _write(files: Sequence[Path], target: Path) -> None:
    write_rows(_groups(files), pq.read_schema(files[0]), target)


def _groups(files: Sequence[Path]) -> Iterator[pa.Table]:
    for path in files:
        with pq.ParquetFile(path) as opened:
            for group in range(opened.num_row_groups):
                yield opened.read_row_group(group)
