"""What an event's contract says about its fields, as conditions in SQL: from Pydantic's constraints.

As text, since a contract's conditions are hundreds of operations, and each on a `Column` is a call of the JVM.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, get_args, get_origin

from pydantic.fields import FieldInfo

from analytics.columns import literal
from analytics.rebuilding.layout import column_of
from eventlib.model.event import Event
from eventlib.model.personal import personal_fields
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.fields import Declared, fields_of
from eventlib.model.schema.types import Array, Choice, Exact, Node, Plain, Record, Union

_LIMIT = 1 << 63
_COMPARED = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_ITEM = "item"


@dataclass(frozen=True)
class Constraint:
    """One thing that a contract says of a field, by name; `holds` is NULL for NULL, `value` the column as text."""

    name: str
    holds: str
    value: str


def constraints_of(event: type[Event]) -> list[Constraint]:
    """Return what can be said of an event's columns; nothing of personal fields, which are ciphertext."""
    found, private = list[Constraint](), personal_fields(event)
    for name, declared, node in _declared(record_of(event)):
        if name not in private:
            column = f"`{column_of(name)}`"
            plain = node.optional if isinstance(node, Union) else node
            text = f"to_json({column})" if isinstance(plain, Array | Record) else f"CAST({column} AS STRING)"
            for path, rule, holds in _of_node(node, declared, column, name):
                found.append(Constraint(f"{path}: {rule}", holds, text))
    return found


_Found = Iterator[tuple[str, str, str]]


def _declared(record: Record) -> Iterator[tuple[str, Declared, Node]]:
    nodes = {each.name: each.node for each in record.fields}
    yield from ((each.name, each, nodes[each.name]) for each in fields_of(record.cls) if each.name in nodes)


def _of_node(node: Node, declared: Declared | None, value: str, path: str) -> _Found:
    """Yield what is said of a value, and of the values in it."""
    inner = node.optional if isinstance(node, Union) else node
    if inner is None:
        return
    given = list(_metadata(declared)) if declared is not None else []
    for name, bound in given:
        condition = _condition(inner, name, bound, value)
        if condition is not None:
            yield path, f"{name}={bound}", condition
    match inner:
        case Choice(values=values):
            yield path, f"one of {', '.join(map(str, values))}", f"{value} IN ({', '.join(map(literal, values))})"
        case Record():
            for name, part, part_node in _declared(inner):
                yield from _of_node(part_node, part, f"{value}.`{name}`", f"{path}.{name}")
        case Array(items=Record() as items):
            for name, part, part_node in _declared(items):
                for inner_path, rule, holds in _of_node(part_node, part, f"{_ITEM}.`{name}`", f"{path}[].{name}"):
                    yield inner_path, rule, f"forall({value}, {_ITEM} -> coalesce({holds}, true))"
        case _:
            return


def _metadata(declared: Declared) -> Iterator[tuple[str, Any]]:
    """Yield the bounds of a field, whichever way they are written."""
    for each in _flat([*declared.metadata, *_annotated(declared.annotation)]):
        for name in (*_COMPARED, "min_length", "max_length", "multiple_of", "pattern"):
            bound = getattr(each, name, None)
            if bound is not None:
                yield name, bound


def _annotated(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        yield from metadata
        yield from _annotated(inner)
    elif get_origin(annotation) is not None and type(None) in get_args(annotation):
        for each in get_args(annotation):
            yield from _annotated(each)


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from _flat(each.metadata)
        else:
            yield each


def _condition(node: Node, name: str, bound: Any, value: str) -> str | None:
    """Return the condition in SQL; None where columns have another type than fields."""
    if isinstance(bound, int) and not -_LIMIT <= bound < _LIMIT:
        return None  # a column of 64 bits cannot break it
    is_text = isinstance(node, Plain) and node.python is str
    found: str | None = None
    if name in _COMPARED and isinstance(node, Plain | Exact) and isinstance(bound, int | float | Decimal | date):
        found = f"{value} {_COMPARED[name]} {literal(bound)}"
    elif name == "multiple_of" and isinstance(node, Plain) and node.python is int:
        found = f"{value} % {literal(bound)} = 0"
    elif name in {"min_length", "max_length"} and (is_text or isinstance(node, Array)):
        length = f"length({value})" if is_text else f"CASE WHEN {value} IS NOT NULL THEN size({value}) END"
        found = f"{length} {'>=' if name == 'min_length' else '<='} {literal(bound)}"
    elif name == "pattern" and is_text and isinstance(bound, str):
        found = f"{value} RLIKE {literal(_in_java(bound))}"
    return found


def _in_java(pattern: str) -> str:
    """Return a pattern as Java reads it: its `$` would match before a last line's end, too."""
    whole = pattern.replace("(?P<", "(?<")
    return re.sub(r"(?<!\\)\$$", r"\\z", whole)
