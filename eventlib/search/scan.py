"""Finds a page of rows in an order, at a bounded cost."""

import base64
import binascii
import sqlite3
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from eventlib.errors import ContractError
from eventlib.index.attributes import Attribute
from eventlib.search.compiling import Compiled

FEW = 2_000
"""So many rows are all looked at and sorted, whatever the order."""
ENOUGH_S = 0.02
_LOOKS = 256


class Place(NamedTuple):
    """A row's place in an order: what it is ordered by, and its saga."""

    value: int | float | str | None
    saga: str


class Found(NamedTuple):
    """The rowids of a page, and the place behind which the next one begins; None at the end."""

    rowids: list[int]
    next: Place | None


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of sagas: by a column with an index, then by key; rows without a value come last."""

    attribute: Attribute
    descending: bool

    def token(self, place: Place) -> str:
        """Return a place as text for the caller to hand back."""
        content = [self.attribute.name, self.descending, place.value, place.saga]
        return base64.urlsafe_b64encode(to_json(content)).decode().rstrip("=")

    def place(self, token: str | None) -> Place | None:
        """Return the place in a text. Raises: ContractError for one that no page of this order has given."""
        if token is None:
            return None
        try:
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            name, descending, value, saga = from_json(base64.b64decode(padded, altchars=b"-_", validate=True))
            is_ours = [name, descending] == [self.attribute.name, self.descending]
            if is_ours and isinstance(saga, str) and (value is None or type(value) in {int, float, str}):
                return Place(value, saga)
        except (ValueError, TypeError, binascii.Error):
            pass
        raise ContractError(
            "`after` is not a cursor of this query: give the `next` of its last page unchanged, or leave it out"
        )


def page_of(db: sqlite3.Connection, condition: Compiled, sort: Sort, after: Place | None, limit: int) -> Found:
    """Return the next rows that meet a condition.

    Cost: where an index leaves few rows, these; else as many rows in the order as take some milliseconds.
    """
    for driver in condition.drivers:
        count = f"SELECT count(*) FROM ({driver})"  # noqa: S608  compiled from a catalogue
        (found,) = db.execute(count, {**condition.values, "most": FEW + 1}).fetchone()
        if found <= FEW:
            return _sorted(db, condition, driver, sort, after, limit)
    return _scanned(db, condition, sort, after, limit)


def _sorted(
    db: sqlite3.Connection, condition: Compiled, driver: str, sort: Sort, after: Place | None, limit: int
) -> Found:
    column, (direction, sign) = _column(sort), _direction(sort)
    values: dict[str, Any] = {**condition.values, "most": FEW, "enough": limit + 1}
    behind = "1"
    if after is not None:
        values |= {"after": after.value, "saga": after.saga}
        behind = f"({column} IS NULL AND s.saga {sign} :saga)"
        if after.value is not None:
            behind = f"({column} IS NULL OR ({column}, s.saga) {sign} (:after, :saga))"
    rows = db.execute(
        f"WITH few AS MATERIALIZED ({driver}) SELECT s.rowid, {column}, s.saga FROM few CROSS JOIN _sagas AS s "  # noqa: S608  as above
        f"ON s.rowid = few.rowid WHERE {condition.sql} AND {behind} "
        f"ORDER BY {column} IS NULL, {column} {direction}, s.saga {direction} LIMIT :enough",
        values,
    ).fetchall()
    rowids = [row[0] for row in rows[:limit]]
    return Found(rowids, Place(*rows[limit - 1][1:]) if len(rows) > limit else None)


def _scanned(db: sqlite3.Connection, condition: Compiled, sort: Sort, after: Place | None, limit: int) -> Found:
    column, (direction, sign) = _column(sort), _direction(sort)
    until = perf_counter() + ENOUGH_S
    rowids, last, looked = list[int](), after, 0
    for is_null in (False, True):
        if not is_null and after is not None and after.value is None:
            continue
        values: dict[str, Any] = dict(condition.values)
        having = f"{column} IS NULL" if is_null else f"{column} IS NOT NULL"
        if after is not None and (after.value is None) == is_null:
            values |= {"after": after.value, "saga": after.saga}
            having += f" AND s.saga {sign} :saga" if is_null else f" AND ({column}, s.saga) {sign} (:after, :saga)"
        having += " AND s.open" if condition.is_open else ""
        rows = db.execute(
            f"SELECT s.rowid, {column}, s.saga, {condition.sql} FROM _sagas AS s INDEXED BY {_index(condition, sort)} "  # noqa: S608  as above
            f"WHERE {having} ORDER BY {column} {direction}, s.saga {direction}",
            values,
        )
        for rowid, value, saga, meets in rows:
            if len(rowids) == limit:
                return Found(rowids, last)
            last, looked = Place(value, saga), looked + 1
            if meets:
                rowids.append(rowid)
            if looked % _LOOKS == 0 and perf_counter() > until:
                return Found(rowids, last)
    return Found(rowids, None)


def _column(sort: Sort) -> str:
    return f's."{sort.attribute.index}"'


def _direction(sort: Sort) -> tuple[str, str]:
    return ("DESC", "<") if sort.descending else ("ASC", ">")


def _index(condition: Compiled, sort: Sort) -> str:
    """Return the index that has the order; for open sagas by time, one that has no others."""
    if condition.is_open and sort.attribute.index == "started_at":
        return "_sagas_open"
    return f'"_sagas_{sort.attribute.index}"'
