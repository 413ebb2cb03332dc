"""Values of a class as JSON."""

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from eventlib.codec.avro.write import MISFITS
from eventlib.codec.plain_values import json_types
from eventlib.errors import ContractError, WiringError
from eventlib.model.schema.scalars import scalar_writer
from eventlib.model.schema.types import (
    NULL,
    Array,
    Choice,
    Exact,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    class_of,
)

Convert = Callable[[Any], Any]


def json_writer(record: Record, header: bytes) -> Callable[[Any], bytes]:
    """Return the function that writes a class's values as JSON behind a header.

    It raises ContractError, with the field's name, for what does not fit the schema. Raises: WiringError for a union
    whose types are one in JSON.
    """
    plain = _Writers().record(record)

    def write(value: Any) -> bytes:
        try:
            return header + to_json(plain(value))
        except MISFITS as error:
            raise ContractError(f"{record.name} does not fit its schema: {error!s:.300}") from error

    return write


class _Writers:
    def __init__(self) -> None:
        self._records: dict[Record, Convert] = {}

    def of(self, node: Node, where: str) -> Convert:  # noqa: PLR0911  one answer for each kind
        match node:
            case Plain(python=kind) if kind in _PLAIN:
                return _PLAIN[kind]
            case Exact():
                return digits(node)
            case Plain() | Choice() | Symbols():
                return _same if (convert := scalar_writer(node)) is None else convert
            case Array(items=items, container=container):
                item, ordered = self.of(items, where), not issubclass(container, set | frozenset)
                return lambda value: _list([item(each) for each in _a(container, value)], ordered=ordered)
            case StringMap(values=values):
                inner = self.of(values, where)
                return lambda value: {_text(key): inner(each) for key, each in value.items()}
            case Record():
                return self.record(node)
            case Union():
                return self._union(node, where)

    def record(self, record: Record) -> Convert:
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda value: plain(value)  # noqa: PLW0108  made below: it may lead back here
        fields = [(field.name, self.of(field.node, f"{record.name}.{field.name}")) for field in record.fields]

        def plain(value: Any) -> dict[str, Any]:
            if not isinstance(value, record.cls):
                raise TypeError(f"{value!r:.60} is not a {record.cls.__name__}")
            made = dict[str, Any]()
            for name, to in fields:
                try:
                    made[name] = to(getattr(value, name))
                except MISFITS as error:
                    raise ValueError(f"{name}: {error!s:.200}") from error
            return made

        self._records[record] = plain
        return plain

    def _union(self, union: Union, where: str) -> Convert:
        branches = [branch for branch in union.branches if branch != NULL]
        kinds = [kind for branch in branches for kind in json_types(branch)]
        if len(set(kinds)) < len(kinds):
            raise WiringError(
                f"{where}: JSON does not say which of the union's types a value is; keep one of them, wrap them in a "
                "model with a field for each, or use another format on this topic"
            )
        optional = self.of(branches[0], where) if len(branches) == 1 else None
        by_type = {class_of(branch): self.of(branch, where) for branch in branches}

        def write(value: Any) -> Any:
            if value is None:
                if NULL in union.branches:
                    return None
                raise TypeError("it must not be None")
            if optional is not None:
                return optional(value)
            to = next((by_type[base] for base in type(value).__mro__ if base in by_type), None)
            if to is None:
                raise TypeError(f"{value!r:.60} is not one of the union's types")
            return to(value)

        return write


def _same(value: Any) -> Any:
    return value


def _a(container: type, value: Any) -> Any:
    if not isinstance(value, container):
        raise TypeError(f"{value!r:.60} is not a {container.__name__}")
    return value


def _list(items: list[Any], *, ordered: bool) -> list[Any]:
    return items if ordered else sorted(items, key=repr)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is not a str")
    value.encode()
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.60} is not a number that JSON has")
    return float(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone; give it one, UTC for instance")
    return value.astimezone(UTC).isoformat()


def _of_day(value: time) -> str:
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a time zone; use a datetime")
    return value.isoformat()


def _day(value: date) -> str:
    if value.__class__ is not date:
        raise TypeError(f"{value!r:.60} is not a date")
    return value.isoformat()


def _uuid(value: UUID) -> str:
    return str(_a(UUID, value))


def _blob(value: bytes) -> str:
    return b64encode(_a(bytes, value)).decode()


def digits(node: Exact) -> Convert:
    """Return the function from a decimal to its digits; it raises ValueError for one that has too many."""
    check = scalar_writer(node)

    def write(value: Decimal) -> str:
        if check is not None:
            check(value)
        return format(value, "f")

    return write


_PLAIN: dict[type, Convert] = {
    str: _text,
    float: _number,
    datetime: _moment,
    date: _day,
    time: _of_day,
    UUID: _uuid,
    bytes: _blob,
}

TEXTS: dict[type, Convert] = {date: _day, time: _of_day, UUID: _uuid}
"""What is text in other formats, too."""
