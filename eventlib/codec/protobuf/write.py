"""Values of a class as Protobuf messages."""

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import Message

from eventlib.codec.avro.write import MISFITS
from eventlib.codec.json.write import TEXTS, digits
from eventlib.codec.protobuf.schema import branch_field
from eventlib.model.schema.scalars import scalar_writer
from eventlib.model.schema.types import NULL, Array, Exact, Node, Plain, Record, StringMap, Symbols, Union, class_of

Convert = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]
"""Fills a message with a value."""
Put = Callable[[Any, str, Any], None]
"""Puts a value into a message's field."""

_MICROS = 1_000_000


class Fills:
    """The functions that fill the messages of one schema."""

    def __init__(self) -> None:
        self._records: dict[Record, Fill] = {}

    def record(self, record: Record) -> Fill:
        """Return the function that fills a record's message; it raises ValueError with the field's name."""
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda message, value: fill(message, value)  # noqa: PLW0108  made below
        fields = [(field.name, self._put(field.node)) for field in record.fields]

        def fill(message: Message, value: Any) -> None:
            if not isinstance(value, record.cls):
                raise TypeError(f"{value!r:.60} is not a {record.cls.__name__}")
            for name, put in fields:
                try:
                    put(message, name, getattr(value, name))
                except MISFITS as error:
                    raise ValueError(f"{name}: {error!s:.200}") from error

        self._records[record] = fill
        return fill

    def _put(self, node: Node) -> Put:
        match node:
            case Union():
                inner = self._one_of(node) if node.optional is None else self._put(node.optional)
                may_be_none = NULL in node.branches
                return lambda message, name, value: _optional(inner, message, name, value, may_be_none=may_be_none)
            case Array(items=items, container=container):
                return self._repeated(items, container)
            case StringMap(values=values):
                return self._map(values)
        fill = self._fill(node)
        if fill is not None:
            return lambda message, name, value: _filled(fill, getattr(message, name), value)
        convert = _scalar(node)
        return lambda message, name, value: setattr(message, name, convert(value))

    def _repeated(self, items: Node, container: type[Iterable[Any]]) -> Put:
        fill, convert = self._fill(items), _scalar(items)

        def put(message: Any, name: str, value: Any) -> None:
            if not isinstance(value, container):
                raise TypeError(f"{value!r:.60} is not a {container.__name__}")
            there = getattr(message, name)
            if fill is None:
                found = [convert(each) for each in value]
                there.extend(sorted(found) if issubclass(container, set | frozenset) else found)
            else:
                for each in value:
                    fill(there.add(), each)

        return put

    def _map(self, values: Node) -> Put:
        fill, convert = self._fill(values), _scalar(values)

        def put(message: Any, name: str, value: Any) -> None:
            there = getattr(message, name)
            for key, each in value.items():
                if fill is None:
                    there[key] = convert(each)
                else:
                    fill(there[key], each)

        return put

    def _one_of(self, union: Union) -> Put:
        branches = [branch for branch in union.branches if branch != NULL]
        puts = {class_of(branch): (branch_field(branch), self._put(branch)) for branch in branches}

        def put(message: Any, name: str, value: Any) -> None:
            found = next((puts[base] for base in type(value).__mro__ if base in puts), None)
            if found is None:
                raise TypeError(f"{value!r:.60} is not one of the union's types")
            found[1](getattr(message, name), found[0], value)

        return put

    def _fill(self, node: Node) -> Fill | None:
        match node:
            case Record():
                return self.record(node)
            case Plain(avro="long", logical="timestamp-micros"):
                return _moment(node)
            case _:
                return None


def _optional(inner: Put, message: Any, name: str, value: Any, *, may_be_none: bool) -> None:
    if value is not None:
        inner(message, name, value)
    elif not may_be_none:
        raise TypeError("it must not be None")


def _filled(fill: Fill, message: Any, value: Any) -> None:
    message.SetInParent()  # present, even if all in it is as proto3 leaves out
    fill(message, value)


def _moment(node: Plain) -> Fill:
    micros = scalar_writer(node)
    assert micros is not None  # noqa: S101  a datetime is always converted

    def fill(message: Any, value: Any) -> None:
        message.seconds, rest = divmod(micros(value), _MICROS)
        message.nanos = rest * 1_000

    return fill


def _scalar(node: Node) -> Convert:
    match node:
        case Plain(python=kind) if kind in TEXTS:
            return TEXTS[kind]
        case Exact():
            return digits(node)
        case Symbols(members=members):
            numbers = {id(member): number for number, member in enumerate(members.values(), 1)}
            return lambda value: numbers[id(value)]
        case Plain():
            convert = scalar_writer(node)
            return (lambda value: value) if convert is None else convert
        case _:
            check = None if isinstance(node, Array | StringMap | Union | Record) else scalar_writer(node)
            return (lambda value: value) if check is None else check
