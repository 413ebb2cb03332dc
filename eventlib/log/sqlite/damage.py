"""What is damaged in an SQLite log: where, what it likely was, and the statements that put right what can be proved."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.log.sqlite.state import OFFSET_BITS

OFFSETS = (1 << OFFSET_BITS) - 1
COLUMNS = (
    *("recorded_at", "key", "value", "id", "type", "source", "subject", "sequence", "correlation_id", "causation_id"),
    *("traceparent", "headers", "checksum"),
)
"""A record's columns after its position."""
Statement = tuple[str, Sequence[Any]]
_KEY, _TYPE = COLUMNS.index("key"), COLUMNS.index("type")
_WRITE = f"UPDATE records SET {', '.join(f'{name} = ?' for name in COLUMNS)} WHERE position = ?"  # noqa: S608  names of this file
_MOVE = "UPDATE records SET position = ? WHERE position = ?"
_AROUND = """
SELECT type, CAST(key AS TEXT), strftime('%Y-%m-%dT%H:%M:%fZ', recorded_at / 1000.0, 'unixepoch') FROM records
WHERE position {} ORDER BY position {} LIMIT 1
"""


def as_it_stands(data: bytes) -> str:
    """Return a text of the file; bytes that are none any more become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing in a log's file that is not what was written.

    `offset` up to before `resume_at` are the records that it is about, None where it is about none; `key` and `type`
    are as they read now, or as they were where that is proved. `repair` puts it right; empty where nothing proves how.
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


def of_record(
    what: str, place: tuple[str, int, int], row: Sequence[Any], likely: str = "", repair: tuple[Statement, ...] = ()
) -> Damage:
    """Return the damage of a record that stands there, from its columns."""
    key = row[_KEY].decode("utf-8", "backslashreplace") if isinstance(row[_KEY], bytes) else row[_KEY]
    return Damage(
        *("records", what, *place, place[2] + 1), None if key is None else str(key), _text(row[_TYPE]), likely, repair
    )


def written_as(position: int, row: Sequence[Any]) -> Statement:
    """Return what writes a record's columns, the checksum among them, where it stands."""
    return _WRITE, (*row, position)


def moved_to(position: int, stands_at: int) -> Statement:
    """Return what moves a record."""
    return _MOVE, (position, stands_at)


def between(connection: sqlite3.Connection, base: int, first: int, end: int) -> str:
    """Return what stands around offsets that have no record, as a part of a sentence."""
    try:
        before = connection.execute(_AROUND.format("BETWEEN ? AND ?", "DESC"), (base, base + first - 1)).fetchone()
        after = connection.execute(_AROUND.format("BETWEEN ? AND ?", ""), (base + end, base + OFFSETS)).fetchone()
    except sqlite3.Error:
        return ""
    sides = [
        f"{side} {_text(found[0]) or 'a record'} of {_text(found[1])!r} at {found[2]}"
        for side, found in (("after", before), ("before", after))
        if found is not None
    ]
    return f"it stood {' and '.join(sides)}" if sides else ""


def _text(value: object) -> str | None:
    return None if value is None else str(value).encode("utf-8", "replace").decode()
