"""Damage in an SQLite log: its location, its likely original content, and the statements that repair a partition's row."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.packing import extent
from eventlib.log.sqlite.state import OFFSET_BITS

OFFSETS = (1 << OFFSET_BITS) - 1
COLUMNS = (
    *("recorded_at", "key", "value", "id", "type", "source", "subject", "sequence", "correlation_id", "causation_id"),
    *("traceparent", "headers", "checksum"),
)
"""A record's columns after its position."""
Statement = tuple[str, Sequence[Any]]
WRITE = f"UPDATE records SET {', '.join(f'{name} = ?' for name in ('position', *COLUMNS))} WHERE position = ?"  # noqa: S608  names of this file
_KEY, _TYPE, _HEADERS = COLUMNS.index("key"), COLUMNS.index("type"), COLUMNS.index("headers")
_AROUND = f"""
SELECT iif({IS_BATCH}, 'a batch of records', type), CAST(key AS TEXT), strftime('%Y-%m-%dT%H:%M:%fZ', recorded_at / 1000.0, 'unixepoch') FROM records
WHERE position {{}} ORDER BY position {{}} LIMIT 1
"""  # noqa: S608  a constant


def as_it_stands(data: bytes) -> str:
    """Return text from the file; invalid UTF-8 becomes lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Damage:
    """One item in a log's file that differs from what was written.

    It concerns the records at `offset` up to before `resume_at`, or none if None; `key` and `type` are as they read
    now. `repair` restores it; empty where nothing proves what was written.
    """

    check: Literal["structure", "schema", "tables", "partitions", "records"]
    what: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    resume_at: int | None = None
    key: str | None = None
    type: str | None = None
    likely: str = ""
    repair: tuple[Statement, ...] = ()


def of_record(what: str, location: tuple[str, int, int], row: Sequence[Any], likely: str = "") -> Damage:
    """Return the damage of the record at a location, or of the batch that ends there, from its columns."""
    key = row[_KEY].decode("utf-8", "backslashreplace") if isinstance(row[_KEY], bytes) else row[_KEY]
    topic, partition, last = location
    return Damage(
        *("records", what, topic, partition, last - max(extent(row[_HEADERS])[1] - 1, 0), last + 1),
        None if key is None else str(key),
        _text(row[_TYPE]),
        likely,
    )


def between(connection: sqlite3.Connection, base: int, first: int, end: int) -> str:
    """Return what surrounds offsets that have no record, as part of a sentence."""
    try:
        before = connection.execute(_AROUND.format("BETWEEN ? AND ?", "DESC"), (base, base + first - 1)).fetchone()
        after = connection.execute(_AROUND.format("BETWEEN ? AND ?", ""), (base + end, base + OFFSETS)).fetchone()
    except sqlite3.Error:
        return ""
    sides = [
        f"{side} {_text(found[0]) or 'a record'}{f' of {_text(found[1])!r}' if found[1] is not None else ''} at {found[2]}"
        for side, found in (("after", before), ("before", after))
        if found is not None
    ]
    return f"it stood {' and '.join(sides)}" if sides else ""


def _text(value: object) -> str | None:
    return None if value is None else str(value).encode("utf-8", "replace").decode()
