"""A field as a column: its type's name, how SQLite declares it, and its value, as the rebuilt tables print it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any
from uuid import UUID

from eventlib.codec.avro.write import fits
from eventlib.json_form import json_of
from eventlib.model.schema.types import NULL, Array, Choice, Exact, Node, Plain, Record, StringMap, Symbols, Union
from eventlib.values import from_ms

MOST_DIGITS = 38
"""The precision of a decimal; a longer one is text."""
NESTED = "JSON"
"""How columns of lists, maps and structs are declared."""
COLLATIONS = {"TEXT_DECIMAL": "DECIMAL", "TEXT_TIME": "TIME"}
"""Texts that compare as what they say, by how their columns are declared; `eventlib.sql.worker` has these collations."""
_MOST_EXACT = 15
"""The digits that a column with SQLite's own numbers keeps; a longer decimal is text."""
_EXACT = Context(prec=1_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_PLAIN_ZERO = 6

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SqlType:
    """What analytics call a type, how SQLite declares it, and the function from a field's value to the column's."""

    name: str
    declared: str
    value: Convert


def iso(at: datetime) -> str:
    """Return a time as text: UTC, with milliseconds, and with microseconds if it has some."""
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    precision = "microseconds" if at.microsecond % 1_000 else "milliseconds"
    return at.isoformat(timespec=precision).replace("+00:00", "Z")


def iso_ms(milliseconds: int) -> str:
    """Return a record's timestamp as `iso` does."""
    return iso(from_ms(milliseconds))


def quantized(value: Decimal, scale: int) -> Decimal:
    """Return a decimal with so many digits after the point, whatever the number of those before it."""
    return value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)


def digits_of(value: Decimal) -> str:
    """Return a decimal's digits, without an exponent; a zero of many places is `0`."""
    exponent = value.as_tuple().exponent
    if not value and isinstance(exponent, int) and -exponent > _PLAIN_ZERO:
        return "0"
    return format(value, "f")


def _micros(at: time) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond


def _same(value: Any) -> Any:
    return value


_PLAIN: dict[type, SqlType] = {
    str: SqlType("string", "TEXT", _same),
    int: SqlType("bigint", "INTEGER", _same),
    float: SqlType("double", "REAL", _same),
    bool: SqlType("boolean", "BOOLEAN", _same),
    bytes: SqlType("binary", "TEXT", bytes.hex),
    datetime: SqlType("timestamp", "TEXT_TIME", iso),
    date: SqlType("date", "TEXT", date.isoformat),
    time: SqlType("bigint", "INTEGER", _micros),
    UUID: SqlType("string", "TEXT", str),
}


def contains_itself(record: Record, above: tuple[Record, ...] = ()) -> bool:
    """Return whether a record leads back to itself, so that it has no columns."""
    inside = [*(field.node for field in record.fields)]
    while inside:
        match inside.pop():
            case Array(items=inner) | StringMap(values=inner):
                inside.append(inner)
            case Union(branches=branches):
                inside += branches
            case Record() as part if part is record or part in above or contains_itself(part, (*above, record)):
                return True
            case _:
                pass
    return False


def column_type(node: Node) -> SqlType:
    """Return the type of a field's column; what has parts is JSON text."""
    found = _type_of(node)
    if found.declared != NESTED:
        return found
    return SqlType(found.name, NESTED, lambda value: None if value is None else _json(found.value(value)))


def _json(value: object) -> str:
    return json.dumps(json_of(value), ensure_ascii=False, separators=(",", ":"))


def _type_of(node: Node) -> SqlType:  # noqa: PLR0911  one for each kind
    match node:
        case Plain(python=kind):
            return _PLAIN[kind]
        case Exact(precision=precision, scale=scale):
            return _decimal(precision, scale)
        case Choice(avro=avro):
            return _PLAIN[str if avro == "string" else int]
        case Symbols(members=members):
            symbols = {member: symbol for symbol, member in members.items()}
            return SqlType("string", "TEXT", symbols.__getitem__)
        case Array(items=items):
            item = _type_of(items)
            return SqlType(f"array<{item.name}>", NESTED, lambda found: [_or_none(item, each) for each in found])
        case StringMap(values=values):
            inner = _type_of(values)
            return SqlType(
                f"map<string,{inner.name}>",
                NESTED,
                lambda found: {name: _or_none(inner, each) for name, each in found.items()},
            )
        case Record():
            return _struct(node)
        case Union():
            return _union(node)


def _or_none(kind: SqlType, value: Any) -> Any:
    return None if value is None else kind.value(value)


def _decimal(precision: int, scale: int) -> SqlType:
    if precision > MOST_DIGITS:
        return SqlType("string", "TEXT", digits_of)
    declared = f"DECIMAL_{scale}" if precision <= _MOST_EXACT else "TEXT_DECIMAL"
    return SqlType(f"decimal({precision},{scale})", declared, lambda found: digits_of(quantized(found, scale)))


def _struct(record: Record) -> SqlType:
    fields = [(each.name, _type_of(each.node)) for each in record.fields]
    return SqlType(
        f"struct<{','.join(f'{name}:{kind.name}' for name, kind in fields)}>",
        NESTED,
        lambda found: {name: _or_none(kind, getattr(found, name)) for name, kind in fields},
    )


def _union(union: Union) -> SqlType:
    if union.optional is not None:
        kind = _type_of(union.optional)
        return SqlType(kind.name, kind.declared, lambda found: _or_none(kind, found))
    branches = [branch for branch in union.branches if branch != NULL]
    kinds = [_type_of(each) for each in branches]

    def value(found: Any) -> dict[str, Any]:
        chosen = next(i for i, each in enumerate(branches) if fits(found, each))
        return {f"member{i}": kind.value(found) if i == chosen else None for i, kind in enumerate(kinds)}

    members = ",".join(f"member{i}:{kind.name}" for i, kind in enumerate(kinds))
    return SqlType(f"struct<{members}>", NESTED, lambda found: None if found is None else value(found))
