"""Reads the records of an SQLite log, verifying each checksum, and that no offset is missing."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import repeat
from sys import intern

from eventlib.errors import DamagedRecord, LogCorrupt
from eventlib.log.checksum import is_as_written, row_checksum
from eventlib.log.rules import NO_RECORD, decode_headers, why_changed
from eventlib.log.sqlite.damage import COLUMNS, as_it_stands
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.packing import Row, contents, extent
from eventlib.log.sqlite.state import PartitionState
from eventlib.model.record import Record

_log = logging.getLogger("eventlib.log")

# In the order of Record's fields, headers as text, then the checksum.
_READ = f"""
SELECT :topic, :partition, position - :base, {", ".join(COLUMNS)}
FROM records WHERE position >= :base + :offset AND position < :top ORDER BY position
"""  # noqa: S608  names of this package
_THERE = "SELECT 1 FROM records WHERE position = ? AND recorded_at IS NOT NULL"
_OFFSET, _AT, _VALUE, _HEADERS, _CHECKSUM = 2, 3, 5, 14, 15
_PROBED = 10_000
_TYPES: tuple[type, ...] = (bytes, bytes, str, str, str, str, int, str, str, str)


async def read_records(file: LogFile, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
    """Return up to `limit` records of a partition from `offset` on; fewer at the end, and before a damaged one.

    Raises: DamagedRecord when the first one is not as it was written; ContractError, LogCorrupt, LogUnavailable.
    """
    state = await file.known_partition(topic, partition)
    end, values = state.end, {"topic": topic, "partition": partition, "offset": offset, **state.range}
    try:
        rows: Sequence[Row] = await file.read(_READ, values, partial(take, offset, limit))
        broken: LogCorrupt | None = None
    except LogCorrupt as error:
        rows, broken = _readable(file.open_connection(), values, limit), error
    end = 0 if _covered(rows, offset) >= limit or broken is not None else end
    found, trouble = _proved(state, rows, offset, end)
    if trouble is not None and trouble.record is None:
        await file.refresh(again=True)  # another process may have dropped what is missing
        found, trouble = _proved(await file.known_partition(topic, partition), rows, offset, end)
    if not found and broken is not None and trouble is None:
        trouble = _unreadable(file.open_connection(), state, offset, broken)
    if not found and trouble is not None:
        raise trouble
    return found if len(found) <= limit else found[:limit]


def take(offset: int, limit: int, cursor: sqlite3.Cursor) -> list[Row]:
    """Return a query's rows up to `limit` records: not one batch more, since each is inflated and proved."""
    rows = list[Row]()
    for row in cursor:
        rows.append(row)
        limit -= 1 if row[_HEADERS] is None else _at_least(row, offset)
        if limit <= 0:
            break
    cursor.close()
    return rows


def _covered(rows: Sequence[Row], offset: int) -> int:
    """Return how many records from an offset on rows have at least: in a batch with gaps it may be more."""
    packed = [_at_least(row, offset) for row in rows if row[_HEADERS] is not None]
    return len(rows) - len(packed) + sum(packed) if packed else len(rows)


def _at_least(row: Row, offset: int) -> int:
    records, offsets = extent(row[_HEADERS])
    first: int = row[_OFFSET] - offsets + 1
    return max(records - max(offset - first, 0), 1)


def read_one(connection: sqlite3.Connection, state: PartitionState, offset: int) -> Record:
    """Return the record at an offset as it was written. Raises: DamagedRecord when that cannot be proven."""
    values = {"topic": state.topic.name, "partition": state.partition, "offset": offset, **state.range}
    found, trouble = _proved(state, _readable(connection, values, 1), offset, state.end)
    if trouble is not None and not found:
        raise trouble
    return found[0]


def _proved(
    state: PartitionState, rows: Sequence[Row], offset: int, end: int
) -> tuple[list[Record], DamagedRecord | None]:
    """Return the records of rows up to the first damaged one, and that one's error."""
    found, expected = list[Record](), max(offset, state.dense_from)
    if _all_match(state, rows, expected):
        found = [Record(*(*row[:_HEADERS], decode_headers(row[_HEADERS]))) for row in rows]
        expected = max(expected, found[-1].offset + 1)
        rows = ()
    for index, row in enumerate(rows):
        # Offsets may be missing before `dense_from`, but must increase: otherwise the B-tree is damaged.
        last, first = row[_OFFSET], _first(row)
        is_sparse = offset <= last < state.dense_from
        is_intact = (is_sparse or last >= expected) and _is_as_written(state, row)
        if (first > expected and not is_sparse) or (not is_intact and last < offset):
            return found, _missing(state, expected, _next(rows[index:], expected, end))
        if not is_intact:
            return found, _changed(state, row, max(first, offset))
        found += _records(row, offset)
        offset = last + 1
        expected = max(expected, offset)
    return found, _missing(state, expected, end) if state.dense_from <= expected < end else None


def _next(rows: Sequence[Row], offset: int, end: int) -> int:
    """Return the offset after damage at which a partition is readable again."""
    return min([first for row in rows if (first := _first(row)) > offset], default=max(end, offset + 1))


def _first(row: Row) -> int:
    """Return the offset of the first record in a row."""
    return int(row[_OFFSET]) - max(extent(row[_HEADERS])[1] - 1, 0)


def _records(row: Row, offset: int) -> list[Record]:
    """Return the records in a row that matches its checksum, from an offset on."""
    if not extent(row[_HEADERS])[0]:
        return [Record(*(*row[:_HEADERS], decode_headers(row[_HEADERS])))]
    topic, partition = row[0], row[1]
    offsets, records = contents(row[_OFFSET], row[_VALUE])
    found = list[Record]()
    for each, columns in zip(offsets, records, strict=True):
        if each >= offset:
            at, key, value, id_, type_, source, subject, sequence, saga, cause, trace, headers = columns
            pairs = () if headers is None else decode_headers(headers)
            # Of these there are few: who looks them up again and again finds one object, whose hash is known.
            type_, source = type_ and intern(type_), source and intern(source)
            # All by position, and none by a star: compiled, it is one call of C then.
            found.append(
                Record(
                    topic,
                    partition,
                    each,
                    at,
                    key,
                    value,
                    id_,
                    type_,
                    source,
                    subject,
                    sequence,
                    saga,
                    cause,
                    trace,
                    pairs,
                )
            )
    return found


def _all_match(state: PartitionState, rows: Sequence[Row], expected: int) -> bool:
    """Whether all rows are intact and none is missing: the common case, so it has no loop here."""
    if not rows or [row for row in rows if row[_HEADERS] is not None and row[_HEADERS][:1] == "{"]:
        return False  # or one is a batch
    offsets = [row[_OFFSET] for row in rows]
    if offsets[-1] >= state.dense_from and offsets != [*range(expected, expected + len(rows))]:
        return False  # or some are where offsets may be missing
    try:
        columns = [row[_AT:_CHECKSUM] for row in rows]
        return [*map(row_checksum, repeat(state.seed), offsets, columns)] == [row[_CHECKSUM] for row in rows]
    except (TypeError, ValueError, AttributeError):  # a column has a type that no record has
        return False


def _is_as_written(state: PartitionState, row: Row) -> bool:
    """Whether a row is what was written at its offset."""
    offset, checksum = row[_OFFSET], row[_CHECKSUM]
    if checksum is None:
        return bool(offset < state.checked_from)
    return is_as_written(state.seed, offset, row[_AT:_CHECKSUM], checksum)


def _changed(state: PartitionState, row: Row, offset: int) -> DamagedRecord:
    """Return the damage of a row from an offset on."""
    checksum, topic, last = row[_CHECKSUM], state.topic.name, row[_OFFSET]
    if extent(row[_HEADERS])[0]:
        return DamagedRecord(f"its batch: {why_changed(checksum)}", topic, state.partition, offset, last + 1)
    damage = why_changed(checksum), topic, state.partition, last, last + 1
    return DamagedRecord(*damage, _as_it_stands(row), checksum if isinstance(checksum, int) else None)


def _missing(state: PartitionState, offset: int, resume_at: int) -> DamagedRecord:
    return DamagedRecord(NO_RECORD, state.topic.name, state.partition, offset, resume_at)


def _as_it_stands(row: Row) -> Record:
    """Return a damaged row as a record; a column of another type than a record's is empty."""
    at_ms, *rest = row[_AT:_HEADERS]
    columns = [value if isinstance(value, kind) else None for value, kind in zip(rest, _TYPES, strict=True)]
    try:
        headers = decode_headers(row[_HEADERS])
    except (TypeError, ValueError, AttributeError):
        headers = ()
    return Record(*(*row[:_AT], at_ms if isinstance(at_ms, int) else 0, *columns, headers))


def _readable(connection: sqlite3.Connection, values: Mapping[str, object], limit: int) -> list[Row]:
    """Return the rows before SQLite finds the file corrupt; invalid texts have lone surrogates."""
    found, strictly = list[Row](), connection.text_factory
    connection.text_factory = as_it_stands
    try:
        with closing(connection.execute(_READ, values)) as cursor:
            for row in cursor:
                found.append(row)
                if len(found) == limit:
                    break
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
