"""Fields of a model or dataclass: annotations, defaults as JSON, documentation."""

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticUndefined

from eventlib.errors import WiringError
from eventlib.model.schema.scalars import scalar_writer
from eventlib.model.schema.types import (
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

_CONTAINERS = (list, dict, set, frozenset, tuple)


class Declared(NamedTuple):
    """A field as its class declares it."""

    name: str
    annotation: Any
    metadata: Sequence[Any]
    default: Any
    doc: str | None


def is_record(cls: object) -> bool:
    """Tell whether a class has fields: a Pydantic model or a dataclass."""
    return isinstance(cls, type) and (issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls))


class NotYet(WiringError):
    """A class names others that are declared further down."""


def fields_of(cls: type[Any], *, completes: bool = True) -> Iterator[Declared]:
    """Yield a class's fields in order; `completes` lets Pydantic look for the names that it has not found yet.

    Raises: WiringError when they could not be written and read back; NotYet for names that are not found, if not `completes`.
    """
    if issubclass(cls, BaseModel):
        return _of_model(cls, completes=completes)
    return _of_dataclass(cls)


def doc_of(cls: type[Any]) -> str | None:
    """Return a class's own docstring; not the signature that `dataclass` makes up."""
    doc = cls.__dict__.get("__doc__")
    if not doc or (dataclasses.is_dataclass(cls) and doc.startswith(f"{cls.__name__}(")):
        return None
    return inspect.cleandoc(doc)


def _of_model(cls: type[BaseModel], *, completes: bool) -> Iterator[Declared]:
    if issubclass(cls, RootModel):
        raise WiringError(f"{cls.__name__} is a RootModel, which has no fields; use a model with a named field")
    if cls.model_config.get("extra") == "allow":
        raise WiringError(f"{cls.__name__} has extra='allow', but a schema knows its fields; use a dict[str, X] field")
    if not completes and not cls.__pydantic_fields_complete__:
        raise NotYet(f"{cls.__name__} names a class that is not declared yet")
    if completes and not cls.__pydantic_complete__:
        try:
            cls.model_rebuild()
        except NameError as error:
            raise _unknown_name(cls, error) from error
    for name, info in cls.model_fields.items():
        default = _default(info.default, info.default_factory, PydanticUndefined)
        yield Declared(name, info.annotation, info.metadata, default, info.description)


def _of_dataclass(cls: type[Any]) -> Iterator[Declared]:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise _unknown_name(cls, error) from error
    for each in dataclasses.fields(cls):
        if not each.init:
            raise WiringError(f"{cls.__name__}.{each.name} has init=False, so it could not be read back; drop that")
        factory = None if each.default_factory is dataclasses.MISSING else each.default_factory
        yield Declared(each.name, hints[each.name], (), _default(each.default, factory, dataclasses.MISSING), None)


def _default(value: object, factory: Callable[..., Any] | None, missing: object) -> Any:
    if factory is None:
        return NO_DEFAULT if value is missing or value is ... else value
    # Only classes whose empty value is always the same: a clock or a random id would be another schema each time.
    if isinstance(factory, type) and (factory in _CONTAINERS or is_record(factory)) and not issubclass(factory, Enum):
        return factory()
    return NO_DEFAULT


OPEN: Any = object()
"""The default of a field that a function makes."""


def default_of(cls: type[Any], name: str) -> Any:
    """Return the default of a field as its class has it; None where it has none, and OPEN where a function makes it."""
    if issubclass(cls, BaseModel):
        info = cls.model_fields[name]
        return OPEN if info.default_factory else None if info.default is PydanticUndefined else info.default
    field = cls.__dataclass_fields__[name]
    if field.default_factory is not dataclasses.MISSING:
        return OPEN
    return None if field.default is dataclasses.MISSING else field.default


def _unknown_name(cls: type[Any], error: NameError) -> NotYet:
    return NotYet(
        f"{cls.__name__}: {error.name!r} is not defined there; declare what its annotations name at module level"
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
