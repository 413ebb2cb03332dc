"""Answers one question in a process of its own, which its parent ends when it takes too long: only reads are possible here.

It imports nothing of the library: it starts in a moment, and has no more rights than the file that it is given.
"""

import json
import resource
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

MOST_MEMORY = 1 << 30
"""Bytes of address space beyond what the process has at its start."""
MOST_ANSWER = 64 << 20
"""Characters of an answer."""
_MOST_VALUE = 10_000_000
_OPERATIONS = 1_000
_BUSY_S = 5.0
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _MOST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_READ}
_FORBIDDEN = {"load_extension", "fts3_tokenizer"}


class _Refused(Exception):
    """The question cannot be answered: `kind` says why."""

    def __init__(self, kind: str, text: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class _Asked:
    """One question on one file."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._asked = asked
        self._until = float("inf")
        self._denied: tuple[str, str] | None = None
        self._named = set[tuple[str, str, str]]()

    def answer(self) -> dict[str, Any]:
        self._until = monotonic() + self._asked["within_s"]
        db = self._opened()
        db.execute("BEGIN")  # the rows and the positions are those of one moment
        found = db.execute("SELECT log_id, fingerprint FROM eventlib_projection").fetchone()
        if [*found] != self._asked["made_by"]:
            raise _Refused("made anew")
        positions = db.execute("SELECT topic, partition, next FROM eventlib_positions ORDER BY 1, 2").fetchall()
        of_topics = "(SELECT count(*) FROM {} WHERE topic IN (SELECT value FROM json_each(?1)))"
        unread = f"SELECT {of_topics.format('eventlib_damaged')} + {of_topics.format('eventlib_misfits')} + {of_topics.format('_unread')}"
        (damaged,) = db.execute(unread, (json.dumps(self._asked["topics"]),)).fetchone()
        self._restrict(db)
        db.set_progress_handler(lambda: monotonic() > self._until, _OPERATIONS)
        try:
            cursor = db.execute(self._asked["question"])
            rows, is_cut = self._rows(cursor)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._explained(error) from error
        if cursor.description is None:
            raise _Refused("statement")
        columns = [name for name, *_ in cursor.description]
        return {"columns": columns, "rows": rows, "is_cut": is_cut, "positions": positions, "damaged": damaged}

    def named(self) -> list[tuple[str, str]]:
        """Return the tables that the question reads, each with the innermost view that it is read by; none for a wrong question."""
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.executescript(self._asked["schema"])
        _add_functions(db, self._asked["schema"])
        self._restrict(db)
        with suppress(sqlite3.Error, sqlite3.Warning):
            db.execute(f"EXPLAIN {self._asked['question']}")  # which is not carried out
        self._denied = None
        by_column = {(view, table) for view, table, column in self._named if column}
        known = {table for _, table in by_column}  # a table of which no column is needed comes without its view
        return sorted(by_column | {("", table) for _, table, _ in self._named if table not in known})

    def _restrict(self, db: sqlite3.Connection) -> None:
        for limit, most in _LIMITS.items():
            db.setlimit(limit, most)
        db.set_authorizer(self._authorize)

    def _opened(self) -> sqlite3.Connection:
        until = monotonic() + _BUSY_S
        while True:
            db = sqlite3.connect(
                self._asked["file"], uri=True, isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES
            )
            try:
                db.execute("PRAGMA query_only = ON")
                db.execute("SELECT 1 FROM eventlib_projection").fetchone()
            except sqlite3.OperationalError as error:
                db.close()
                if "locked" not in str(error) or monotonic() > until:
                    raise _Refused("busy", str(error)) from error
                sleep(0.05)
            else:
                break
        db.text_factory = lambda text: text.decode("utf-8", "replace")
        _add_functions(db, self._asked["schema"])
        return db

    def _rows(self, cursor: sqlite3.Cursor) -> tuple[list[list[Any]], bool]:
        rows, size = list[list[Any]](), 0
        for row in cursor:
            if len(rows) == self._asked["limit"]:
                return rows, True
            values = [value.hex() if isinstance(value, bytes) else value for value in row]
            size += sum(len(value) if isinstance(value, str) else 8 for value in values)
            if size > MOST_ANSWER:
                raise _Refused("too large")
            rows.append(values)
        return rows, False

    def _authorize(
        self, action: int, first: str | None, second: str | None, _database: str | None, view: str | None
    ) -> int:
        """Allow what reads: all in this file may be read."""
        if action == sqlite3.SQLITE_READ:
            self._named.add((view or "", first or "", second or ""))
        if action in _ALLOWED:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            if (second or "").lower() not in _FORBIDDEN:
                return sqlite3.SQLITE_OK
            self._denied = "function", second or ""
        else:
            self._denied = self._denied or ("statement", "")
        return sqlite3.SQLITE_DENY

    def _explained(self, error: Exception) -> _Refused:  # noqa: PLR0911  one answer for each kind
        text = str(error)
        if self._denied is not None:
            return _Refused(*self._denied)
        if text.startswith("cannot modify"):
            return _Refused("statement")
        if "integer overflow" in text or _Sum.has_overflown:
            return _Refused("overflow")
        if "too big" in text or "full" in text or "I/O" in text:  # a value, or what a sort writes to the disk
            return _Refused("too large")
        if "interrupted" in text:
            return _Refused("too long")
        if isinstance(error, sqlite3.Warning) or "one statement" in text:
            return _Refused("statements")
        return _Refused("sql", text)


# --- functions that Spark's SQL has


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return None


def _unix_millis(text: object) -> int | None:
    at = _time(text)
    return None if at is None else int((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000 + 0.5)


_UNITS = ("year", "month", "day", "hour", "minute", "second")
_SMALLEST = {"month": 1, "day": 1}


def _date_trunc(unit: object, text: object) -> str | None:
    at, name = _time(text), str(unit).lower()
    if at is None or name not in _UNITS:
        return None
    smaller = {each: _SMALLEST.get(each, 0) for each in _UNITS[_UNITS.index(name) + 1 :]}
    return at.replace(microsecond=0, **smaller).isoformat(timespec="milliseconds").replace("+00:00", "Z")  # type: ignore[arg-type]


def _part(name: str) -> Any:
    def part(text: object) -> int | None:
        at = _time(text)
        return None if at is None else getattr(at, name)

    return part


_FUNCTIONS: list[tuple[str, Any, int]] = [
    ("unix_millis", _unix_millis, 1),
    ("date_trunc", _date_trunc, 2),
    *((name, _part(name), 1) for name in _UNITS),
]


def _add_functions(db: sqlite3.Connection, schema: str) -> None:
    for name, function, arguments in _FUNCTIONS:
        db.create_function(name, arguments, function, deterministic=True)
    db.create_collation("DECIMAL", lambda one, other: _compared(_number(one), _number(other)))
    db.create_collation("TIME", lambda one, other: _compared(one.rstrip("Z"), other.rstrip("Z")))
    if "COLLATE DECIMAL" in schema:
        db.create_window_function("sum", 1, _Sum)


def _compared(one: Any, other: Any) -> int:
    return 0 if one == other else 1 if one > other else -1


def _number(text: str) -> tuple[bool, Any]:
    """Return a text as it compares: a number before what is none."""
    from decimal import Decimal, InvalidOperation

    try:
        found = Decimal(text)
    except InvalidOperation:
        return True, text
    return (False, found) if found.is_finite() else (True, text)


class _Sum:
    """SQLite's `sum`, which is exact for decimals of more digits than a float has."""

    has_overflown = False

    def __init__(self) -> None:
        from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

        self._exact = Context(prec=1_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
        self._integer, self._decimal, self._real = 0, Decimal(0), 0.0
        self._integers = self._decimals = self._reals = 0

    def step(self, value: object) -> None:
        self._take(value, 1)

    def inverse(self, value: object) -> None:
        self._take(value, -1)

    def _take(self, value: Any, sign: int) -> None:
        if value is None:
            return
        is_text, number = _number(value) if isinstance(value, str) else (True, value)
        if not is_text:
            self._decimals += sign
            self._decimal = self._exact.add(self._decimal, number if sign > 0 else number.copy_negate())
        elif isinstance(number, int):
            self._integers += sign
            self._integer += number * sign
        else:
            self._reals += sign
            self._real += number * sign if isinstance(number, float) else 0.0

    def value(self) -> int | float | str | None:
        if self._reals:
            return float(self._decimal) + self._integer + self._real
        if self._decimals:
            return _shown(self._exact.add(self._decimal, self._integer))
        if not -(2**63) <= self._integer < 2**63:
            _Sum.has_overflown = True
            raise OverflowError
        return self._integer if self._integers else None

    finalize = value


def _shown(total: Any) -> float | str:
    """Return a decimal as a float, which compares as a number, where that has all of its digits; else as text."""
    from decimal import Decimal

    made = float(total)
    return made if "e" not in repr(made) and Decimal(repr(made)) == total else _trimmed(format(total, "f"))


def _trimmed(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


# --- types that SQLite does not have


def _converters(scales: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    yield "BOOLEAN", lambda text: text != b"0"
    yield "JSON", json.loads
    for name, scale in scales.items():
        yield name, lambda text, scale=scale: _decimal(text.decode(), scale)


def _decimal(text: str, scale: int) -> str:
    from decimal import Decimal

    found = Decimal(text).quantize(Decimal(1).scaleb(-scale))
    return format(found, "f") if found or scale <= 6 else "0"  # noqa: PLR2004  as the columns of long ones have it


def main() -> None:
    """Read a question as JSON from stdin, print the tables that it reads, read where they are, and print its answer, or why there is none."""
    asked = json.loads(sys.stdin.readline())
    for name, convert in _converters(asked["decimals"]):
        sqlite3.register_converter(name, convert)
    _limit(asked["within_s"])
    question = _Asked(asked)
    print(json.dumps(question.named()), flush=True)
    asked |= json.loads(sys.stdin.readline())
    try:
        found = question.answer()
    except _Refused as error:
        found = {"refused": error.kind, "text": str(error)}
    except MemoryError:
        found = {"refused": "too large", "text": ""}
    json.dump(found, sys.stdout)


def _limit(within_s: float) -> None:
    """Bound what this process may take, whatever SQLite is asked to compute."""
    with suppress(OSError, ValueError):
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  no import for one line
            there = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (there + MOST_MEMORY,) * 2)
    seconds = int(within_s) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_MEMORY,) * 2)  # what a sort may write to the disk


if __name__ == "__main__":
    main()
