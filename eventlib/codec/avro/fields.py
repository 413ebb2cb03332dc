"""What a model or dataclass declares: its fields with their annotations and defaults, and its doc."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticUndefined

from eventlib.codec.avro.types import NO_DEFAULT
from eventlib.errors import WiringError

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


def fields_of(cls: type[Any]) -> Iterator[Declared]:
    """Yield a class's fields in order. Raises: WiringError when they could not be written and read back."""
    if issubclass(cls, BaseModel):
        return _of_model(cls)
    return _of_dataclass(cls)


def doc_of(cls: type[Any]) -> str | None:
    """Return a class's own docstring; not the signature that `dataclass` makes up."""
    doc = cls.__dict__.get("__doc__")
    if not doc or (dataclasses.is_dataclass(cls) and doc.startswith(f"{cls.__name__}(")):
        return None
    return inspect.cleandoc(doc)


def _of_model(cls: type[BaseModel]) -> Iterator[Declared]:
    if issubclass(cls, RootModel):
        raise WiringError(f"{cls.__name__} is a RootModel, which has no fields; use a model with a named field")
    if cls.model_config.get("extra") == "allow":
        raise WiringError(f"{cls.__name__} has extra='allow', but a schema knows its fields; use a dict[str, X] field")
    if not cls.__pydantic_complete__:
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


def _unknown_name(cls: type[Any], error: NameError) -> WiringError:
    return WiringError(
        f"{cls.__name__}: {error.name!r} is not defined there; declare what its annotations name at module level"
    )
