"""Upkeep of batches of records in an SQLite log: it looks into them, and leaves out dropped records.

A batch that loses records stays one row, at the position of the last that is left: no row is inserted, which a retired
log refuses.
"""

import sqlite3
from collections.abc import Container, Iterator
from contextlib import suppress

from eventlib.log.checksum import MASK, is_as_written
from eventlib.log.sqlite.damage import COLUMNS, WRITE
from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.packing import Row, contents, extent, repacked, unpacked
from eventlib.log.sqlite.sealed import delete_rows
from eventlib.log.sqlite.state import PartitionState

_ROW = f"SELECT position, {', '.join(COLUMNS)} FROM records"  # noqa: S608  names of this package
_HEADERS = -2
_NEXT = f"{_ROW} WHERE position >= ? AND position < ? ORDER BY position LIMIT 1"
_UP_TO = "SELECT position FROM records WHERE position >= ? AND position <= ?"
_BACKWARDS = f"""
SELECT position, iif({IS_BATCH}, headers, NULL) FROM records WHERE position >= ? AND position < ?
ORDER BY position DESC LIMIT ?
"""  # noqa: S608  names of this package
_HOLDERS = f"""{_ROW} WHERE {IS_BATCH} AND position IN (
    SELECT (SELECT min(position) FROM records WHERE position >= dropped.position) FROM ({{}}) dropped)"""  # noqa: S608  as above
_SIZES = f"""
SELECT position, recorded_at, ifnull(length(key), 0) + ifnull(length(value), 0), iif({IS_BATCH}, value, NULL) FROM records
WHERE position >= ? AND position < ? ORDER BY position
"""  # noqa: S608  as above


def delete_records(connection: sqlite3.Connection, state: PartitionState, which: str) -> int:
    """Delete a partition's records at the positions that a query returns, also those in batches.

    Returns how many. `write_partitions` must follow in the same transaction. Raises: sqlite3.Error.
    """
    dropped, holders = 0, connection.execute(_HOLDERS.format(which)).fetchall()
    if holders:
        positions = {position for (position,) in connection.execute(which)}
        dropped = sum([_leave_out(connection, state, row, positions) for row in holders])
    return dropped + delete_rows(connection, state, which)


def delete_to(connection: sqlite3.Connection, state: PartitionState, last: int) -> None:
    """Delete a partition's records up to a position, also those in a batch. Raises: sqlite3.Error."""
    delete_rows(connection, state, _UP_TO, (state.base, last))
    row = connection.execute(_NEXT, (last + 1, state.range["top"])).fetchone()
    if row is not None and row[0] - extent(row[_HEADERS])[1] < last:  # its first record is up to there
        _leave_out(connection, state, row, range(state.base, last + 1))


def starts_before(connection: sqlite3.Connection, position: int) -> bool:
    """Whether a batch has records both before a position and from it on. Raises: sqlite3.Error."""
    row = connection.execute(_NEXT, (position, 1 << 62)).fetchone()
    return row is not None and row[0] - extent(row[_HEADERS])[1] + 1 < position <= row[0]


def _leave_out(connection: sqlite3.Connection, state: PartitionState, row: Row, dropped: Container[int]) -> int:
    """Write a batch without some of its records; return how many those were. A damaged one is left for its repair."""
    if not is_as_written(state.seed, row[0] - state.base, row[1:-1], row[-1]):
        return 0
    rows = unpacked(state.seed, state.base, row)
    left = [each for each in rows if each[0] not in dropped]
    state.digest = state.digest - sum([each[-1] for each in rows if each[0] in dropped]) & MASK
    if not left:
        connection.execute("DELETE FROM records WHERE position = ?", (row[0],))
    elif len(left) < len(rows):
        connection.execute(WRITE, (*repacked(state.seed, state.base, left), row[0]))
    return len(rows) - len(left)


def sizes(connection: sqlite3.Connection, first: int, top: int) -> Iterator[tuple[int, int, int]]:
    """Yield the position, time and bytes of each record from a position on and before another. Raises: sqlite3.Error.

    A batch that cannot be read counts as one record, at its last one's position.
    """
    for position, at_ms, size, value in connection.execute(_SIZES, (first, top)):
        try:
            positions, records = contents(position, value) if value is not None else ((), [])
        except ValueError:
            positions, records = (), []
        if not records:
            yield position, at_ms, size
        for each, (recorded_at, key, payload, *_) in zip(positions, records, strict=True):
            if each >= first:
                yield each, recorded_at, len(key or b"") + len(payload or b"")


def window(connection: sqlite3.Connection, first: int, top: int, records: int) -> tuple[int | None, list[int]]:
    """Return where the rows before `top` begin that have some records, None when that is all; and the batches there.

    That is a record's position, not its row's: a batch that loses its last record is at an earlier position then, and
    would come once more below. Raises: sqlite3.Error.
    """
    rows, batches, left = connection.execute(_BACKWARDS, (first, top, records)).fetchall(), list[int](), records
    for position, headers in rows:
        count, span = extent(headers)
        left -= max(count, 1)
        if headers is not None:
            batches.append(position)
        if left <= 0:
            return position - max(span, 1) + 1, batches
    return None, batches


def keys(connection: sqlite3.Connection, batch: int) -> Iterator[tuple[int, int, bytes | None, bool]]:
    """Yield position, time, key, and whether it is a tombstone, of a batch's records; nothing of a damaged batch.

    Raises: sqlite3.Error.
    """
    (value,) = connection.execute("SELECT value FROM records WHERE position = ?", (batch,)).fetchone()
    with suppress(ValueError):
        positions, records = contents(batch, value)
        for position, (recorded_at, key, payload, *_) in zip(positions, records, strict=True):
            yield position, recorded_at, key, payload is None


def first_at(last: int, batch: bytes | None, at_ms: int) -> int:
    """Return the offset of the first record not older than a time in a row that ends at `last`, and may be a batch."""
    if batch is not None:
        with suppress(ValueError):
            offsets, records = contents(last, batch)
            return next((each for each, columns in zip(offsets, records, strict=True) if columns[0] >= at_ms), last)
    return last
