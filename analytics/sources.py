"""The parts of a log in files, which any process reads as Arrow batches, without Spark."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from analytics import sqlite
from analytics.archive import Portion, portions, shares_of
from analytics.asking import from_anywhere
from analytics.selection import Selection
from eventlib.ground.url import log_file
from eventlib.log.archive.place import SCHEME

Source = Callable[[], Iterator[pa.RecordBatch]]
"""Reads a part of a log: batches with the columns of `analytics.schema.STORED`."""

_CODED = ("topic", "type", "source")  # few values: a file has them in a dictionary


def is_in_files(url: str) -> bool:
    """Return whether a log is in files: an SQLite database or an archive."""
    return log_file(url) is not None or url.startswith(SCHEME)


def sources_of(url: str, selection: Selection, count: int) -> tuple[Sequence[Sequence[Source]], int | None]:
    """Return what each of about `count` tasks reads, and how many rows that is in all.

    That is not known of an SQLite database, which this process has not to read: it may have the file open, and would lose
    its locks on it. Raises: LogUnavailable; LogCorrupt.
    """
    path = log_file(url)
    if path is not None:
        found = sqlite.sources(path.absolute(), selection)
        return [share for n in range(count) if (share := found[n::count])], None
    parts = [*portions(from_anywhere(url), selection)]
    return shares_of(parts, count), sum(each.rows for each in parts)


def records_in(source: Source, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of `analytics.audit.rows.RECORD` of what a source reads. Raises: LogCorrupt."""
    stored = ["recorded_at" if name == "at_ms" else name for name in columns]
    batches = source.stored(stored, _CODED) if isinstance(source, Portion) else source()
    return map(partial(_as_records, columns=columns, stored=stored), batches)


def _as_records(batch: pa.RecordBatch, columns: Sequence[str], stored: Sequence[str]) -> pa.RecordBatch:
    milliseconds = pa.timestamp("ms", "UTC")
    values = [
        batch[name].cast(milliseconds, safe=False).cast(pa.int64()) if name == "recorded_at" else batch[name]
        for name in stored
    ]
    return pa.RecordBatch.from_arrays(values, names=[*columns])
