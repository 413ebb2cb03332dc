"""Converters from events and states to what fastavro writes, compiled once for each class."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

from eventlib.codec.avro.guard import guard_of
from eventlib.codec.avro.scalars import Convert, scalar_writer
from eventlib.codec.avro.types import (
    Array,
    Choice,
    Exact,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    name_of,
    schema_json,
    without_logical_types,
)
from eventlib.errors import ContractError

# What a value can do to the code that writes it; an attribute is missing when a value has another class.
MISFITS = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError)

_CHECKED = (int, float, bool)  # fastavro would write 1.5 as the integer 1, and "no" as true


def writer_of(record: Record, header: bytes) -> Callable[[Any], bytes]:
    """Return the function that writes a class's values as Avro behind a header.

    It raises ContractError, with the field's name, for what does not fit the schema.
    """
    plain = without_logical_types(schema_json(record))
    parsed = parse_schema(plain)
    convert = _Writers().record(record)
    guard = guard_of(parsed)

    def write(value: Any) -> bytes:  # the class is known from its dispatch
        out = BytesIO()
        try:
            schemaless_writer(out, parsed, convert(value))
            written = header + out.getvalue()
            if guard is not None:
                guard(written, len(header))  # what could not be read again is not written
        except MISFITS as error:
            raise _misfit(record, value, error) from error
        return written

    return write


class _Writers:
    """The converters of one schema; a record's is made once, since it may lead back to itself."""

    def __init__(self) -> None:
        self._records: dict[Record, Convert] = {}

    def of(self, node: Node) -> Convert | None:
        """Return a type's converter; None where fastavro takes the value as it is."""
        match node:
            case Plain() | Exact() | Choice() | Symbols():
                return scalar_writer(node)
            case Array(items=items, container=container):
                return _array(self.of(items), container)
            case StringMap(values=values):
                return _map(self.of(values))
            case Union():
                other = node.optional
                return self._union(node) if other is None else self._optional(other)
            case Record():
                return self._nested(node)

    def record(self, record: Record) -> Convert:
        """Return a record's converter, from an instance to a dict that fastavro only reads."""
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda value: convert(value)  # noqa: PLW0108  convert is made below
        found = {field.name: self.of(field.node) for field in record.fields}
        kinds = {
            f.name: f.node.python for f in record.fields if isinstance(f.node, Plain) and f.node.python in _CHECKED
        }
        checks = tuple(kinds.items())
        repairs = tuple((name, to) for name, to in found.items() if to is not None and name in kinds)
        changes = tuple((name, to) for name, to in found.items() if to is not None and name not in kinds)
        fields = _fields_getter(record)

        def convert(value: object) -> dict[str, Any]:
            values = fields(value)
            if changes:
                values = values.copy()
                for name, to in changes:
                    values[name] = to(values[name])
            for name, kind in checks:
                if values[name].__class__ is not kind:
                    return {**values, **{name: to(values[name]) for name, to in repairs}}
            return values

        self._records[record] = convert
        return convert

    def _nested(self, record: Record) -> Convert:
        convert, cls = self.record(record), record.cls

        def write(value: object) -> object:
            if not isinstance(value, cls):
                raise TypeError(f"{value!r:.60} is not a {cls.__name__}")
            return convert(value)

        return write

    def _optional(self, node: Node) -> Convert | None:
        convert, name = self.of(node), name_of(node)
        if convert is None and not isinstance(node, StringMap):
            return None
        # fastavro tries a value on each branch, unless it is told which; a bare tuple would be taken for that.
        named = isinstance(node, Record | Symbols | Array | StringMap)

        def write(value: object) -> object:
            if value is None:
                return None
            written = value if convert is None else convert(value)
            return (name, written) if named else written

        return write

    def _union(self, union: Union) -> Convert:
        branches = {_class_of(node): (name_of(node), self.of(node)) for node in union.branches}
        if float in branches:
            branches.setdefault(int, branches[float])

        def write(value: object) -> object:
            found = branches.get(value.__class__)
            if found is None:
                found = next((branches[base] for base in type(value).__mro__ if base in branches), None)
                if found is None:
                    raise TypeError(f"{value!r:.60} is not one of {', '.join(map(name_of, union.branches))}")
            name, convert = found
            return (name, value if convert is None else convert(value))

        return write


def _class_of(node: Node) -> type:
    match node:
        case Plain(python=cls) | Symbols(cls=cls) | Record(cls=cls) | Array(container=cls):
            return cls
        case Exact():
            return Decimal
        case Choice(values=values):
            return type(values[0])
        case StringMap():
            return dict
        case Union():
            raise TypeError("a union is never a branch of another")


def _array(convert: Convert | None, container: type[Iterable[Any]]) -> Convert:
    ordered = not issubclass(container, set | frozenset)

    def write(value: Any) -> list[Any]:
        if not isinstance(value, container):
            raise TypeError(f"{value!r:.60} is not a {container.__name__}")
        written = list(value) if convert is None else [convert(item) for item in value]
        if not ordered:
            # The same set makes the same bytes in every process, whatever its hash seed.
            written.sort(key=repr)
        return written

    return write


def _map(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: {key: convert(item) for key, item in value.items()}


def _fields_getter(record: Record) -> Callable[[Any], dict[str, Any]]:
    if record.cls.__dictoffset__:
        return lambda value: value.__dict__
    names = [field.name for field in record.fields]
    return lambda value: {name: getattr(value, name) for name in names}


def _misfit(record: Record, value: object, error: Exception) -> ContractError:
    path, reason = _blame(record, value) or ("", error)
    place = f"{record.name}.{path}" if path else record.name
    return ContractError(f"{place} does not fit its schema: {reason!s:.300}")


def _blame(record: Record, value: object) -> tuple[str, Exception] | None:
    """Return the path to the first field that cannot be written alone, and why."""
    for field in record.fields:
        try:
            part = getattr(value, field.name)
            convert = _Writers().of(field.node)
            parsed = parse_schema(without_logical_types(schema_json(field.node)))
            schemaless_writer(BytesIO(), parsed, part if convert is None else convert(part))
        except MISFITS as error:
            inner = _blame(field.node, part) if isinstance(field.node, Record) else None
            return (field.name, error) if inner is None else (f"{field.name}.{inner[0]}", inner[1])
    return None
