"""The query language means what its text says: compiled conditions against an evaluation in Python, on any rows."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlib.index.attributes import Attribute
from eventlib.model.searchable import Kind
from eventlib.search.compiling import Catalogue, compiled
from eventlib.search.language import QueryError, parse_order, parse_where

NOW = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = {
    "word": Kind("text"), "count": Kind("integer"), "price": Kind("decimal", places=2), "size": Kind("number"),
    "on": Kind("boolean"), "at": Kind("time"), "took": Kind("duration"), "colour": Kind("text", ("red", "green")),
}  # fmt: skip
CATALOGUE = Catalogue(
    "things",
    [
        *(Attribute(name, kind, "", f's."{name}"') for name, kind in KINDS.items()),
        Attribute("age", Kind("duration"), "", 's."at"'),
        Attribute("tag", Kind("text"), "", "m.value", "saga_values/tag"),
    ],
)
TEXTS = st.one_of(
    st.sampled_from(["", "a", "A", "ab", "a%b", "a_b", "*", "[a]", "a?b", "'", "''", "日本", "é", '"; drop table things; --']),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")), max_size=6),
)  # fmt: skip
MOMENTS = st.integers(0, 4_000_000).map(lambda ms: NOW - timedelta(milliseconds=ms))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "word": TEXTS,
    "count": st.integers(-3, 3) | st.integers(-(2**63) + 1, 2**63 - 1),
    "price": st.integers(-300, 300).map(lambda units: Decimal(units).scaleb(-2)),
    "size": st.integers(-8, 8).map(lambda eighths: eighths / 8),
    "on": st.booleans(),
    "at": MOMENTS,
    "took": st.integers(0, 4_000_000).map(lambda ms: timedelta(milliseconds=ms)),
    "colour": st.sampled_from(["red", "green"]),
    "tag": TEXTS,
}
Row = dict[str, Any]
Holds = Callable[[Row], bool | None]
"""Whether a condition holds for a row; None where a value is missing, as in SQL."""


def literal(value: object) -> str:
    """Return a value as a query writes it."""
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return f"{value // timedelta(milliseconds=1)}ms"
        case datetime():
            return f"'{value.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}'"
        case float():
            return f"{value:.3f}"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def of(row: Row, name: str) -> Any:
    """Return a row's value, texts in the order of their UTF-8."""
    value = NOW - row["at"] if name == "age" and row["at"] is not None else row.get("at" if name == "age" else name)
    return value.encode() if isinstance(value, str) else value


def ordered(value: object) -> Any:
    return value.encode() if isinstance(value, str) else value


def known(name: str, holds: Callable[[Any], bool]) -> Holds:
    """Return a condition on one value: unknown without one; for tags whether one of them meets it."""
    if name == "tag":
        return lambda row: any(holds(each.encode()) for each in row["tag"])
    return lambda row: None if of(row, name) is None else holds(of(row, name))


def negated(holds: Holds) -> Holds:
    def opposite(row: Row) -> bool | None:
        found = holds(row)
        return None if found is None else not found

    return opposite


def both(left: Holds, right: Holds) -> Holds:
    def every(row: Row) -> bool | None:
        found = {left(row), right(row)}
        return False if False in found else None if None in found else True

    return every


def either(left: Holds, right: Holds) -> Holds:
    return negated(both(negated(left), negated(right)))


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, Holds]:  # noqa: PLR0911  one for each form
    """Draw a comparison, with what it means."""
    name = draw(st.sampled_from([*VALUES, "age"]))
    values = VALUES["took" if name == "age" else name]
    spelled = draw(st.sampled_from([name, name.upper()]))
    has_order = name not in {"on", "colour", "tag"}
    shape = draw(st.sampled_from(["compare", "in", "null", *(["between"] if has_order else []), *(["like"] if name in {"word", "tag"} else [])]))  # fmt: skip
    if shape == "null" and name != "age":
        missing: Holds = (lambda row: not row["tag"]) if name == "tag" else (lambda row: of(row, name) is None)
        if draw(st.booleans()):
            return f"{spelled} is null", missing
        return f"{spelled} IS NOT NULL", negated(missing)
    if shape == "in":
        some = draw(st.lists(values, min_size=1, max_size=3))
        within = {ordered(each) for each in some}
        return f"{spelled} in ({', '.join(map(literal, some))})", known(name, lambda value: value in within)
    if shape == "between":
        least, most = draw(values), draw(values)
        low, high = ordered(least), ordered(most)
        return f"{spelled} between {literal(least)} and {literal(most)}", known(
            name, lambda value: low <= value <= high
        )
    if shape == "like":
        pattern = draw(st.lists(st.sampled_from(["%", "_", "a", "A", "*", "[", "?", "é"]), max_size=5).map("".join))
        regex = re.compile("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern), re.DOTALL)
        return f"{spelled} like '{pattern}'", known(name, lambda value: bool(regex.fullmatch(value.decode())))
    operator = draw(st.sampled_from([*COMPARE] if has_order else ["=", "!=", "<>"]))
    value = draw(values)
    if name == "tag" and operator != "=":  # no tag is so
        return f"{spelled} {operator} {literal(value)}", lambda row: value not in row["tag"]
    return f"{spelled} {operator} {literal(value)}", known(name, lambda found: COMPARE[operator](found, ordered(value)))


def joined(inner: st.SearchStrategy[tuple[str, Holds]]) -> st.SearchStrategy[tuple[str, Holds]]:
    """Return conditions made of others."""
    return st.one_of(
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]}) and ({two[1][0]})", both(two[0][1], two[1][1]))),
        st.tuples(inner, inner).map(lambda two: (f"({two[0][0]})\nOR ({two[1][0]})", either(two[0][1], two[1][1]))),
        inner.map(lambda one: (f"not ({one[0]})", negated(one[1]))),
    )


CONDITIONS = st.recursive(comparisons(), joined, max_leaves=6)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | VALUES[name] for name in KINDS} | {"tag": st.lists(TEXTS, max_size=2)}),
    min_size=1,
    max_size=5,
)


def filled(rows: list[Row]) -> sqlite3.Connection:
    """Return a database with rows, as an index stores them."""
    db = sqlite3.connect(":memory:")
    columns = ", ".join(f'"{name}"' for name in KINDS)
    db.execute(f"CREATE TABLE things (saga INTEGER, {columns})")
    db.execute("CREATE TABLE saga_values (name TEXT, value, saga INTEGER)")
    for number, row in enumerate(rows):
        values = [stored(kind, row[name]) for name, kind in KINDS.items()]
        db.execute(f"INSERT INTO things VALUES ({', '.join('?' * (len(KINDS) + 1))})", [number, *values])  # noqa: S608  of this test
        db.executemany("INSERT INTO saga_values VALUES ('tag', ?, ?)", [(tag, number) for tag in row["tag"]])
    return db


def found_in(db: sqlite3.Connection, where: str) -> list[int]:
    """Return which rows a query finds."""
    condition = compiled(parse_where(where), CATALOGUE, (NOW - EPOCH) // timedelta(milliseconds=1))
    question = f"SELECT s.saga FROM things AS s WHERE {condition.sql} ORDER BY s.saga"  # noqa: S608  what is tested
    return [number for (number,) in db.execute(question, condition.values)]


def stored(kind: Kind, value: Any) -> Any:
    return value // timedelta(milliseconds=1) if isinstance(value, timedelta) else kind.stored(value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(CONDITIONS, ROWS)
def test_a_query_finds_what_python_finds(condition: tuple[str, Holds], rows: list[Row]) -> None:
    where, holds = condition
    with closing(filled(rows)) as db:
        assert found_in(db, where) == [number for number, row in enumerate(rows) if holds(row) is True]


@settings(max_examples=250)
@given(st.text(max_size=60) | st.lists(st.sampled_from(["word", "=", "'", "''", "(", ")", "and", "not", "in", ",", "1", "--", ";", "like", "\0", "😀", "9" * 50, "1d"]), max_size=30).map(" ".join))  # fmt: skip
def test_any_text_is_a_query_or_refused_with_its_place(text: str) -> None:
    columns = [refused_at(parse_where, text), refused_at(parse_order, text)]
    assert all(column is None or 1 <= column <= len(text) + 1 for column in columns)


def refused_at(parse: Callable[[str], object], text: str) -> int | None:
    try:
        parse(text)
    except QueryError as error:
        return error.column
    return None


def test_no_text_of_a_query_is_in_its_sql() -> None:
    word = "x' OR 1=1; DROP TABLE things --".replace("'", "''")
    condition = compiled(parse_where(f"word = '{word}' or tag like '%{word}%'"), CATALOGUE, 0)
    assert "DROP" not in condition.sql
    assert not any("DROP" in driver for driver in condition.drivers)
    assert "x' OR 1=1; DROP TABLE things --" in condition.values.values()


@pytest.mark.parametrize(
    "where", ["word = 'a' " * 2, "rowid = 1", "sqlite_version() = '3'", "word = (select 1)", 'word = "a"']
)
def test_what_is_sql_and_no_query_is_refused(where: str) -> None:
    with pytest.raises(QueryError):
        compiled(parse_where(where), CATALOGUE, 0)


def test_like_means_the_same_for_every_short_pattern_and_text() -> None:
    short = ["".join(each) for length in range(3) for each in product("%_*[?]aA", repeat=length)]
    rows: list[Row] = [dict.fromkeys(KINDS) | {"word": text, "tag": []} for text in short]
    with closing(filled(rows)) as db:
        for pattern in short:
            regex = re.compile("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern), re.DOTALL)
            expected = [number for number, text in enumerate(short) if regex.fullmatch(text)]
            assert found_in(db, f"word like '{pattern}'") == expected, pattern
