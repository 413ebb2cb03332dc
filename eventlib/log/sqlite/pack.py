"""Packs the rows of an SQLite log as batches: what an older release wrote, or many small transactions.

In transactions of a few milliseconds, each whole by itself: what was interrupted is continued by packing again.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from eventlib.log.checksum import encoded, is_as_written
from eventlib.log.sqlite.damage import COLUMNS, WRITE
from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.packing import MOST, Row, extent, packed
from eventlib.log.sqlite.state import PartitionState
from eventlib.log.sqlite.steps import Steps

_STEP_ROWS = 32 * MOST
_ROWS = f"""
SELECT position, {", ".join(COLUMNS)} FROM records WHERE position >= ? AND position < ? AND NOT {IS_BATCH}
ORDER BY position LIMIT {_STEP_ROWS}
"""  # noqa: S608  names of this package
_DELETE = "DELETE FROM records WHERE position >= ? AND position < ?"


@dataclass(slots=True)
class Packed:
    """The result of packing: how many records it read, and how many of them are in batches now."""

    seen: int = 0
    packed: int = 0


class Packing(Steps):
    """Packs one partition, as far as it was when this began."""

    async def run(self, done: Packed, progress: Callable[[int], None]) -> None:
        """Pack its rows; what has no checksum, or does not match it, stays as it is."""
        position: int | None = self._state.base
        end = self._state.base + self._state.end
        while position is not None:
            position, seen, count = await self._step(partial(_pack, self._state, position, end))
            done.seen, done.packed = done.seen + seen, done.packed + count
            progress(seen)


def _pack(state: PartitionState, first: int, end: int, connection: sqlite3.Connection) -> tuple[int | None, int, int]:
    """Pack some rows from a position on; return where to continue, and how many rows were seen and packed."""
    rows = connection.execute(_ROWS, (first, end)).fetchall()
    is_last, count = len(rows) < _STEP_ROWS, 0
    for run in _runs(state, rows):
        found = [(each[1:-1], each[-1]) for each in run]
        for row in packed(state.seed, state.base, run[0][0], found, [encoded(columns) for columns, _ in found]):
            count += _replace(connection, row)
    return (None if is_last else rows[-1][0] + 1), len(rows), count


def _runs(state: PartitionState, rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows without a gap between them that match their checksums, all before `dense_from` or none."""
    run, border = list[Row](), state.base + state.dense_from
    for row in rows:
        is_sound = is_as_written(state.seed, row[0] - state.base, row[1:-1], row[-1])
        if run and not (is_sound and row[0] == run[-1][0] + 1 and row[0] != border):
            yield run
            run = []
        if is_sound:
            run.append(row)
    if run:
        yield run


def _replace(connection: sqlite3.Connection, row: Row) -> int:
    """Write a batch in place of its records' rows, and return how many; a single record's row is there already."""
    last, (records, _) = row[0], extent(row[-2])
    if records:
        connection.execute(_DELETE, (last - records + 1, last))
        connection.execute(WRITE, (*row, last))  # no row is inserted, which a retired log refuses
    return records
