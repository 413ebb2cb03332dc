"""A field's Python default as the JSON default of its schema."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eventlib.codec.avro.scalars import scalar_writer
from eventlib.codec.avro.types import (
    NO_DEFAULT,
    NULL,
    Array,
    Choice,
    Exact,
    Field,
    Json,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
)


def with_default(field: Field, value: Any) -> Field:
    """Return a field with its default; a union's first branch becomes the default's, as Avro wants it.

    A default that JSON cannot hold (NaN, for instance) is left to the class, which fills it in when reading.
    """
    if value is NO_DEFAULT:
        return replace(field, default=None) if _optional(field.node) else field
    if not isinstance(field.node, Union):
        return replace(field, fills=True, default=_json_or_nothing(field.node, value))
    for branch in field.node.branches:
        default = _json_or_nothing(branch, value)
        if default is not NO_DEFAULT:
            rest = (other for other in field.node.branches if other is not branch)
            return replace(field, node=Union((branch, *rest)), fills=True, default=default)
    return replace(field, fills=True)


def _optional(node: Node) -> bool:
    return isinstance(node, Union) and node.branches[0] == NULL


def _json_or_nothing(node: Node, value: object) -> Json:
    try:
        return _json(node, value)
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        return NO_DEFAULT


def _json(node: Node, value: Any) -> Json:
    match node:
        case Plain() | Exact() | Choice() | Symbols():
            return _scalar(node, value)
        case Array(items=items, container=container):
            if not isinstance(value, container):
                raise TypeError(f"{value!r} is not a {container.__name__}")
            found = [_json(items, item) for item in value]
            return sorted(found, key=repr) if isinstance(value, set | frozenset) else found
        case StringMap(values=values) if isinstance(value, Mapping):
            return {_json(_KEY, key): _json(values, item) for key, item in value.items()}
        case Union(branches=branches):
            return _json(branches[0], value)  # what a default means inside of another
        case Record(cls=cls, fields=fields) if isinstance(value, cls):
            return {each.name: _json(each.node, getattr(value, each.name)) for each in fields}
        case _:
            raise TypeError(f"{value!r} does not fit")


_KEY = Plain(str, "string")


def _scalar(node: Plain | Exact | Choice | Symbols, value: Any) -> Json:
    if isinstance(node, Plain) and not isinstance(value, node.python | int if node.python is float else node.python):
        raise TypeError(f"{value!r} is not {node.python.__name__}")
    write = scalar_writer(node)
    written = value if write is None else write(value)
    match written:
        case bytes():
            return written.decode("latin-1")  # as Avro writes bytes in JSON
        case float() if not math.isfinite(written):
            raise ValueError("JSON has no such number")
        case _:
            return written
