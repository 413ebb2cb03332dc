"""Reads the records of an SQLite log, verifying each checksum, and that no offset is missing."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from eventlib.errors import DamagedRecord, LogCorrupt
from eventlib.log.checksum import corrected, is_as_written, row_checksum
from eventlib.log.record import Record
from eventlib.log.rules import NO_RECORD, decode_headers, why_changed
from eventlib.log.sqlite.damage import COLUMNS, as_it_stands
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.state import PartitionState

_log = logging.getLogger("eventlib.log")

# In the order of Record's fields, headers as text, then the checksum.
_READ = f"""
SELECT :topic, :partition, position - :base, {", ".join(COLUMNS)}
FROM records WHERE position >= :base + :offset AND position < :top ORDER BY position LIMIT :limit
"""  # noqa: S608  names of this package
_THERE = "SELECT 1 FROM records WHERE position = ? AND recorded_at IS NOT NULL"
_OFFSET, _AT, _HEADERS, _CHECKSUM = 2, 3, 14, 15
_PROBED = 10_000
_TYPES: tuple[type, ...] = (bytes, bytes, str, str, str, str, int, str, str, str)


async def read_records(file: LogFile, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
    """Return up to `limit` records of a partition from `offset` on; fewer at the end, and before a damaged one.

    A record that differs from its checksum by one bit is returned as it was written. Raises: DamagedRecord when the
    first one cannot be corrected; ContractError, LogCorrupt, LogUnavailable.
    """
    state = await file.known_partition(topic, partition)
    end, values = state.end, {"topic": topic, "partition": partition, "offset": offset, "limit": limit, **state.range}
    try:
        rows: Sequence[tuple[Any, ...]] = await file.read(_READ, values)
        broken: LogCorrupt | None = None
    except LogCorrupt as error:
        rows, broken = _readable(file.open_connection(), values), error
    end = end if len(rows) < limit and broken is None else 0
    found, trouble = _proved(state, rows, offset, end)
    if trouble is not None and trouble.record is None:
        await file.refresh(again=True)  # another process may have dropped what is missing
        found, trouble = _proved(await file.known_partition(topic, partition), rows, offset, end)
    if not found and broken is not None and trouble is None:
        trouble = _unreadable(file.open_connection(), state, offset, broken)
    if not found and trouble is not None:
        raise trouble
    return found


def read_one(connection: sqlite3.Connection, state: PartitionState, offset: int) -> Record:
    """Return the record at an offset as it was written. Raises: DamagedRecord when that cannot be proven."""
    values = {"topic": state.topic.name, "partition": state.partition, "offset": offset, "limit": 1, **state.range}
    found, trouble = _proved(state, _readable(connection, values), offset, state.end)
    if trouble is not None and not found:
        raise trouble
    return found[0]


def _proved(
    state: PartitionState, rows: Sequence[tuple[Any, ...]], offset: int, end: int
) -> tuple[list[Record], DamagedRecord | None]:
    """Return the records of rows up to the first damaged one, and that one's error."""
    found, dense_from = list[Record](), state.dense_from
    expected = max(offset, dense_from)
    if _all_match(state, rows, expected):
        found = [Record(*(*row[:_HEADERS], decode_headers(row[_HEADERS]))) for row in rows]
        expected = max(expected, found[-1].offset + 1)
        rows = ()
    for index, row in enumerate(rows):
        # Offsets may be missing before `dense_from`, but must increase: otherwise the B-tree is damaged.
        found_offset = max(offset, row[_OFFSET]) if row[_OFFSET] < dense_from else expected
        if not _matches(state, found_offset, row) or row[_OFFSET] != found_offset:
            if row[_OFFSET] != found_offset and not _matches(state, found_offset, row):
                return found, _missing(state, found_offset, _next(rows[index:], found_offset, end))
            corrected_row = _corrected(state, found_offset, row)
            if corrected_row is None:
                return found, _changed(state, row)
            row = corrected_row  # noqa: PLW2901  as it was written
        found.append(Record(*(*row[:_HEADERS], decode_headers(row[_HEADERS]))))
        offset, expected = found_offset + 1, max(expected, found_offset + 1)
    return found, _missing(state, expected, end) if dense_from <= expected < end else None


def _all_match(state: PartitionState, rows: Sequence[tuple[Any, ...]], expected: int) -> bool:
    """Whether all rows are intact and none is missing: the common case, so it has no loop here."""
    if not rows:
        return False
    offsets = [row[_OFFSET] for row in rows]
    if offsets[-1] >= state.dense_from and offsets != [*range(expected, expected + len(rows))]:
        return False  # or some are where offsets may be missing
    try:
        columns = [row[_AT:_CHECKSUM] for row in rows]
        return [*map(row_checksum, repeat(state.seed), offsets, columns)] == [row[_CHECKSUM] for row in rows]
    except (TypeError, ValueError, AttributeError):  # a column has a type that no record has
        return False


def _matches(state: PartitionState, offset: int, row: tuple[Any, ...]) -> bool:
    """Whether a row is what was written at an offset."""
    checksum = row[_CHECKSUM]
    if checksum is None:
        return offset < state.checked_from and row[_OFFSET] == offset
    return is_as_written(state.seed, offset, row[_AT:_CHECKSUM], checksum)


def _corrected(state: PartitionState, offset: int, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the row as it was written, when that can be proven."""
    columns, checksum = row[_AT:_CHECKSUM], row[_CHECKSUM]
    if not _matches(state, offset, row):
        found = corrected(columns, checksum, partial(row_checksum, state.seed, offset))
        if found is None:
            return None
        columns = found
    _log.warning(
        "%s/%s/%s: one flipped bit of the record was corrected in memory; `eventlib repair` repairs the file",
        *(state.topic.name, state.partition, offset),
    )
    return (*row[:_OFFSET], offset, *columns, checksum)


def _changed(state: PartitionState, row: tuple[Any, ...]) -> DamagedRecord:
    offset, checksum = row[_OFFSET], row[_CHECKSUM]
    damage = why_changed(checksum), state.topic.name, state.partition, offset, offset + 1
    return DamagedRecord(*damage, _as_it_stands(row), checksum if isinstance(checksum, int) else None)


def _missing(state: PartitionState, offset: int, resume_at: int) -> DamagedRecord:
    return DamagedRecord(NO_RECORD, state.topic.name, state.partition, offset, resume_at)


def _next(rows: Sequence[tuple[Any, ...]], offset: int, end: int) -> int:
    """Return the offset after damage at which a partition is readable again."""
    return min((row[_OFFSET] for row in rows if row[_OFFSET] > offset), default=max(end, offset + 1))


def _as_it_stands(row: tuple[Any, ...]) -> Record:
    """Return a damaged row as a record; a column of another type than a record's is empty."""
    at_ms, *rest = row[_AT:_HEADERS]
    columns = [value if isinstance(value, kind) else None for value, kind in zip(rest, _TYPES, strict=True)]
    try:
        headers = decode_headers(row[_HEADERS])
    except (TypeError, ValueError, AttributeError):
        headers = ()
    return Record(*(*row[:_AT], at_ms if isinstance(at_ms, int) else 0, *columns, headers))


def _readable(connection: sqlite3.Connection, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
    """Return the rows before SQLite finds the file corrupt; invalid texts have lone surrogates."""
    found, strictly = list[tuple[Any, ...]](), connection.text_factory
    connection.text_factory = as_it_stands
    try:
        found.extend(connection.execute(_READ, values))
    except sqlite3.DatabaseError as error:
        _log.debug("the log cannot be read further: %s", error)
    finally:
        connection.text_factory = strictly
    return found


def _unreadable(connection: sqlite3.Connection, state: PartitionState, offset: int, error: LogCorrupt) -> DamagedRecord:
    """Return the damage where SQLite reads nothing, with the next offset where it does."""
    for probed in range(offset + 1, min(state.end, offset + _PROBED)):
        try:
            if connection.execute(_THERE, (state.base + probed,)).fetchone() is not None:
                return DamagedRecord(str(error), state.topic.name, state.partition, offset, probed)
        except sqlite3.DatabaseError:
            continue
    return DamagedRecord(str(error), state.topic.name, state.partition, offset, max(state.end, offset + 1))
