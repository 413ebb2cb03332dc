"""Writers of events and states as Avro's binary encoding, made once for each class."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any, cast

from fastavro import parse_schema
from pydantic import BaseModel

from eventlib.codec.avro import scalars
from eventlib.codec.avro.bounds_check import guard_of
from eventlib.errors import ContractError
from eventlib.model.schema.scalars import attribute, scalar_writer
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
    name_of,
    schema_json,
    without_logical_types,
)

# What a value can do to the code that writes it; an attribute is missing when a value has another class.
MISFITS = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError)

Put = Callable[[Any], bytes]

_TEXT, _INTEGER = Plain(str, "string"), Plain(int, "long")

_PRIMITIVES: dict[str, Put] = {
    "string": scalars.text,
    "int": scalars.long,
    "long": scalars.long,
    "double": scalars.double,
    "boolean": scalars.boolean,
    "bytes": scalars.blob,
}


def writer_of(record: Record, header: bytes) -> Put:
    """Return the function that writes a class's values as Avro behind a header.

    It raises ContractError, with the field's name, for what does not fit the schema.
    """
    writers = _Writers()
    put = writers.whole(record, header)  # the class is known from its dispatch
    guard = guard_of(parse_schema(without_logical_types(schema_json(record))))
    if guard is None:
        return put

    def write(value: Any) -> bytes:
        written = put(value)
        try:
            guard(written, len(header))  # what could not be read again is not written
        except MISFITS as error:
            raise _misfit(writers, record, value, error) from error
        return written

    return write


class _Writers:
    """The writers of one schema; a record's is made once, since it may lead back to itself."""

    def __init__(self) -> None:
        self._records: dict[Record, Put] = {}

    def of(self, node: Node) -> Put:
        """Return a type's writer."""
        match node:
            case Plain() | Exact() | Choice():
                return _scalar(node)
            case Symbols():
                return _symbol(node)
            case Array(items=items, container=container):
                return _array(self.of(items), container)
            case StringMap(values=values):
                return _map(self.of(values))
            case Union():
                other = node.optional
                return self._union(node) if other is None else _optional(node.branches.index(NULL), self.of(other))
            case Record():
                return self.record(node)

    def record(self, record: Record) -> Put:
        """Return a record's writer."""
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda value: put(value)  # noqa: PLW0108  put is made below
        join, cls = self._joined(record), record.cls

        def put(value: object) -> bytes:
            if not isinstance(value, cls):
                raise TypeError(f"{value!r:.60} is not a {cls.__name__}")
            return join(value)

        self._records[record] = put
        return put

    def whole(self, record: Record, header: bytes) -> Put:
        """Return the writer of a record of a class that is known, behind a header."""
        return self._joined(record, header)

    def _joined(self, record: Record, header: bytes | None = None) -> Put:
        """Return the function that writes a record's fields; with a header, it raises ContractError for a misfit.

        It is made of source, as a loop over them takes twice as long; text and whole numbers, which most fields are,
        take no call of their own.
        """
        names: dict[str, Any] = {"header": header, "varint_of": scalars.VARINTS.get, "varint": scalars.long}
        names |= {"misfits": MISFITS, "misfit": partial(_misfit, self, record)}
        lines, parts = list[str](), ["header"] if header else []
        if is_model := issubclass(record.cls, BaseModel):  # whose attributes are looked for in several places
            lines.append("fields = value.__dict__")
        for n, field in enumerate(record.fields):
            source = f"fields[{field.name!r}]" if is_model else attribute(field.name)
            if field.node == _TEXT:
                lines += [f"v{n} = {source}.encode()", f"n{n} = len(v{n})"]
                parts += [f"varint_of(n{n}) or varint(n{n})", f"v{n}"]
            elif field.node == _INTEGER:
                names[f"integer{n}"] = scalar_writer(_INTEGER)
                lines += [f"v{n} = {source}", f"if type(v{n}) is not int: v{n} = integer{n}(v{n})"]
                parts += [f"varint_of(v{n}) or varint(v{n})"]
            else:
                lines += [f"v{n} = {source}"]
                parts += [self._expression(field.node, n, names)]
        lines.append(f"return b''.join(({''.join(part + ', ' for part in parts)}))")
        if header is not None:
            lines = ["try:", *(f"    {line}" for line in lines), "except misfits as error:"]
            lines.append("    raise misfit(value, error) from error")
        body = "\n    ".join(lines)
        exec(f"def join(value):\n    {body}", names)  # noqa: S102  all of it is written above, and names are Avro's
        return cast("Put", names["join"])

    def _expression(self, node: Node, n: int, names: dict[str, Any]) -> str:
        """Return the source that writes the local `v{n}`; most values take no call of Python."""
        match node:
            case Union(optional=inner) if inner is not None:
                null = node.branches.index(NULL)
                none, some = scalars.long(null), scalars.long(1 - null)
                return f"{none!r} if v{n} is None else {some!r} + ({self._expression(inner, n, names)})"
            case Symbols():
                names[f"symbol{n}"], names[f"put{n}"] = symbols_of(node).get, _symbol(node)
                return f"symbol{n}(id(v{n})) or put{n}(v{n})"
            case Plain(avro="boolean"):
                names[f"put{n}"] = self.of(node)
                true, false = scalars.boolean(value=True), scalars.boolean(value=False)
                return f"{true!r} if v{n} is True else {false!r} if v{n} is False else put{n}(v{n})"
            case _:
                pass
        names[f"put{n}"] = self.of(node)
        return f"put{n}(v{n})"

    def _union(self, union: Union) -> Put:
        branches = {class_of(node): (scalars.long(index), self.of(node)) for index, node in enumerate(union.branches)}
        if float in branches:
            branches.setdefault(int, branches[float])

        def write(value: object) -> bytes:
            found = branches.get(value.__class__)
            if found is None:
                found = next((branches[base] for base in type(value).__mro__ if base in branches), None)
                if found is None:
                    raise TypeError(f"{value!r:.60} is not one of {', '.join(map(name_of, union.branches))}")
            index, put = found
            return index + put(value)

        return write


def _scalar(node: Plain | Exact | Choice) -> Put:
    if node == NULL:
        return lambda _: scalars.NOTHING
    put, convert = _PRIMITIVES[node.avro], scalar_writer(node)
    if convert is None:
        return put
    if put is scalars.long:
        varint_of = scalars.VARINTS.get
        return lambda value: varint_of(number := convert(value)) or scalars.long(number)
    kind = node.python if isinstance(node, Plain) and node.logical is None else None

    def write(value: Any) -> bytes:
        return put(value if value.__class__ is kind else convert(value))

    return write


def _symbol(node: Symbols) -> Put:
    written, cls = symbols_of(node), node.cls

    def write(value: Any) -> bytes:
        found = written.get(id(value))
        if found is None:
            raise ValueError(f"{value!r:.60} is not a member of {cls.__name__}")
        return found

    return write


def symbols_of(node: Symbols) -> dict[int, bytes]:
    """Return what each member of an enum is written as, by its `id`: to hash a member is a call into Python.

    Members live as long as their class.
    """
    return {id(member): scalars.long(index) for index, member in enumerate(node.members.values())}


def _optional(null: int, put: Put) -> Put:
    none, some = scalars.long(null), scalars.long(1 - null)
    return lambda value: none if value is None else some + put(value)


def _array(put: Put, container: type[Iterable[Any]]) -> Put:
    ordered = not issubclass(container, set | frozenset)

    def write(value: Any) -> bytes:
        if not isinstance(value, container):
            raise TypeError(f"{value!r:.60} is not a {container.__name__}")
        written = [put(item) for item in value]
        if not ordered:
            # The same set makes the same bytes in every process, whatever its hash seed.
            written.sort()
        return scalars.items(written)

    return write


def _map(put: Put) -> Put:
    return lambda value: scalars.items([scalars.text(key) + put(item) for key, item in value.items()])


def _misfit(writers: _Writers, record: Record, value: object, error: Exception) -> ContractError:
    path, reason = _blame(writers, record, value) or ("", error)
    place = f"{record.name}.{path}" if path else record.name
    return ContractError(f"{place} does not fit its schema: {reason!s:.300}")


def _blame(writers: _Writers, record: Record, value: object) -> tuple[str, Exception] | None:
    """Return the path to the first field that cannot be written alone, and why."""
    for field in record.fields:
        try:
            part = getattr(value, field.name)
            writers.of(field.node)(part)
        except MISFITS as error:
            inner = _blame(writers, field.node, part) if isinstance(field.node, Record) else None
            return (field.name, error) if inner is None else (f"{field.name}.{inner[0]}", inner[1])
    return None


def fits(made: object, node: Node) -> bool:
    """Return whether a value is one of a branch of a union: columns have a member for each."""
    match node:
        case Record(cls=cls) | Symbols(cls=cls):
            return isinstance(made, cls)
        case Plain(python=kind):
            return type(made) is kind
        case Exact():
            return isinstance(made, Decimal)
        case Choice(values=values):
            return made in values
        case Array():
            return isinstance(made, list | tuple | set | frozenset)
        case _:
            return isinstance(made, dict)
