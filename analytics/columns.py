"""An event's fields as columns: their Spark types, and their values for Arrow."""

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from operator import attrgetter
from typing import Any
from uuid import UUID

from pyspark.sql import types as t

from eventlib.codec.avro.write import fits
from eventlib.errors import WiringError
from eventlib.index.columns import digits_of, quantized
from eventlib.model.schema.types import NULL, Array, Choice, Exact, Node, Plain, Record, StringMap, Symbols, Union

MOST_DIGITS = 38
"""The precision of Spark's decimal; a longer one is text."""

_PLAIN: dict[type, t.DataType] = {
    str: t.StringType(),
    int: t.LongType(),
    float: t.DoubleType(),
    bool: t.BooleanType(),
    bytes: t.BinaryType(),
    datetime: t.TimestampType(),
    date: t.DateType(),
    time: t.LongType(),  # Spark has no time of day: microseconds since midnight
    UUID: t.StringType(),
}

Convert = Callable[[Any], Any]


def struct_of(record: Record, above: tuple[Record, ...] = ()) -> t.StructType:
    """Return a record's type. Raises: WiringError for a recursive one, which cannot be a table."""
    if record in above:
        raise WiringError(f"{record.name} contains itself, so it has no columns: read it with `analytics.log`")
    return t.StructType([t.StructField(each.name, _type_of(each.node, (*above, record))) for each in record.fields])


def _type_of(node: Node, above: tuple[Record, ...]) -> t.DataType:  # noqa: PLR0911  one for each kind
    match node:
        case Plain(python=kind):
            return _PLAIN[kind]
        case Exact(precision=precision, scale=scale):
            return t.DecimalType(precision, scale) if precision <= MOST_DIGITS else t.StringType()
        case Choice(avro=avro):
            return t.StringType() if avro == "string" else t.LongType()
        case Symbols():
            return t.StringType()
        case Array(items=items):
            return t.ArrayType(_type_of(items, above))
        case StringMap(values=values):
            return t.MapType(t.StringType(), _type_of(values, above))
        case Record():
            return struct_of(node, above)
        case Union():
            return _union_type(node, above)


def _union_type(union: Union, above: tuple[Record, ...]) -> t.DataType:
    if union.optional is not None:
        return _type_of(union.optional, above)
    return t.StructType([t.StructField(f"member{i}", _type_of(each, above)) for i, each in enumerate(_members(union))])


def _members(union: Union) -> list[Node]:
    """Return a union's branches in Spark's numbering."""
    return [branch for branch in union.branches if branch != NULL]


def literal(value: object) -> str:
    """Return a number, a text, a date or a time as Spark's SQL has it."""
    match value:
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"{value:f}BD"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case _:
            return str(value)


def values_of(record: Record) -> Convert:
    """Return the function from an instance of a record's class to Arrow's value of `struct_of`: its fields, in order."""
    names, values = [each.name for each in record.fields], [value_of(each.node) for each in record.fields]
    if len(names) > 1 and all(each is as_it_is for each in values):
        return attrgetter(*names)
    pairs = [*zip(map(attrgetter, names), values, strict=True)]
    return lambda made: tuple([value(get(made)) for get, value in pairs])


def value_of(node: Node) -> Convert:  # noqa: PLR0911  one for each kind
    """Return the function from a value of a schema to the value that Arrow takes for it."""
    match node:
        case Union():
            return _union_value(node)
        case Record():
            return values_of(node)
        case Array(items=items):
            item = value_of(items)
            if item is as_it_is:
                return list
            return lambda made: [*map(item, made)]
        case StringMap(values=values):
            value = value_of(values)
            return lambda made: [(key, value(each)) for key, each in made.items()]
        case Symbols(members=members):
            symbols = {member: symbol for symbol, member in members.items()}
            return symbols.__getitem__
        case Exact(precision=precision, scale=scale):
            return _digits(precision, scale)
        case Plain(python=kind):
            return _SINGLE.get(kind, as_it_is)
        case Choice():
            return as_it_is


def _union_value(union: Union) -> Convert:
    if union.optional is not None:
        one = value_of(union.optional)
        if one is as_it_is:
            return as_it_is
        return lambda made: None if made is None else one(made)
    members = _members(union)
    converts = [value_of(each) for each in members]

    def convert(made: Any) -> object:
        if made is None:
            return None
        i = next(i for i, each in enumerate(members) if fits(made, each))
        return {f"member{i}": converts[i](made)}

    return convert


def _digits(precision: int, scale: int) -> Convert:
    return (lambda made: quantized(made, scale)) if precision <= MOST_DIGITS else digits_of


def as_it_is(made: object) -> object:
    """Return a value that Arrow takes as it is."""
    return made


def _micros(made: time) -> int:
    return ((made.hour * 60 + made.minute) * 60 + made.second) * 1_000_000 + made.microsecond


_SINGLE: dict[type, Convert] = {time: _micros, UUID: str}


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield a node and all within it; the record must not be recursive."""
    yield node
    match node:
        case Array(items=inner) | StringMap(values=inner):
            yield from nodes_of(inner)
        case Union(branches=branches):
            for branch in branches:
                yield from nodes_of(branch)
        case Record(fields=fields):
            for field in fields:
                yield from nodes_of(field.node)
        case _:
            pass
