"""The JSON form of events and states: what every output shows, and what every input takes. Its reference: docs/reference/json.md.

It is what Pydantic writes, and beyond that lossless: bytes that are not UTF-8, NaN and infinities have a text, and a value of a
union says which of its types it is where JSON alone would be read as another one.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import lru_cache
from types import GenericAlias
from typing import Any, Literal, TypeVar
from typing import Union as AnyOf

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from eventlib.errors import ContractError, WiringError
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.fields import is_record
from eventlib.model.schema.normal import normal
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
    nodes_in,
)

__all__ = ["json_of", "json_text", "read_json"]

T = TypeVar("T")
Convert = Callable[[Any], Any]

BASE64 = "data:;base64,"
"""The prefix of bytes that are not UTF-8 text: they are a data URL (RFC 2397)."""
_TYPE, _VALUE = "$type", "value"
_AS_IT_IS = frozenset({str, int, bool, type(None)})


def json_of(value: Any) -> Any:  # noqa: PLR0911  one answer for each kind
    """Return the JSON form of an event, a state, a part of one, or what has such: dicts, lists, texts, numbers, booleans, None."""
    cls = value.__class__
    if cls in _AS_IT_IS:
        return value
    if is_record(cls):
        return _writer_of(cls)(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _blob(bytes(value))
    if isinstance(value, Mapping):
        return {str(name): json_of(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of(each) for each in value]
    return to_jsonable_python(value, fallback=str)


def json_text(value: object) -> str:
    """Return the JSON form of an event, a state, or a part of one as text."""
    return to_json(json_of(value)).decode()


def read_json(cls: type[T], text: str | bytes) -> T:
    """Return the event or state that a JSON text of this form is: the inverse of `json_text`.

    It takes whatever else Pydantic takes for the class, too. Raises: pydantic.ValidationError; ContractError, with the name
    of the field, for bytes whose base64 is broken.
    """
    known: Any = cls
    adapter: TypeAdapter[T] = _adapter_of(known)
    content = text.encode() if isinstance(text, str) else text
    if BASE64.encode() not in content and _TYPE.encode() not in content:
        return normal(adapter.validate_json(content))
    try:
        made = _reader_of(known)(from_json(content))
    except ContractError:
        raise
    except ValueError:
        return normal(adapter.validate_json(content))  # which says what is wrong
    return normal(adapter.validate_python(made, by_alias=False, by_name=True))


@lru_cache(maxsize=1_024)
def _adapter_of(cls: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


@lru_cache(maxsize=1_024)
def _writer_of(cls: type[Any]) -> Convert:
    try:
        return _Writers().of(record_of(cls)) or _plain
    except WiringError:  # neither an event nor a state, but it may have some
        names = [each.name for each in fields(cls)] if is_dataclass(cls) else []
        return (lambda value: {name: json_of(getattr(value, name)) for name in names}) if names else _plain


@lru_cache(maxsize=1_024)
def _reader_of(cls: type[Any]) -> Convert:
    return _Readers().record(record_of(cls))


class _Writers:
    """The functions from the values of one class's types to JSON; None for a type that Pydantic writes without loss."""

    def __init__(self) -> None:
        self._records: dict[Record, Convert] = {}

    def of(self, node: Node) -> Convert | None:  # noqa: PLR0911  one answer for each kind
        if not any(map(_is_lossy, nodes_in(node))):
            return None
        match node:
            case Plain(python=kind):
                return _number if kind is float else _blob
            case Array(items=items):
                item = self._each(items)
                return lambda values: [item(each) for each in values]
            case StringMap(values=values):
                inner = self._each(values)
                return lambda found: {str(name): inner(each) for name, each in found.items()}
            case Record():
                return self._record(node)
            case Union():
                return self._union(node)
            case _:
                return None

    def _each(self, node: Node) -> Convert:
        return self.of(node) or json_of

    def _record(self, record: Record) -> Convert:
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda value: write(value)  # noqa: PLW0108  made below: it may lead back here
        own = {field.name: to for field in record.fields if (to := self.of(field.node)) is not None}
        names = [field.name for field in record.fields]

        def write(value: Any) -> Any:
            if isinstance(value, BaseModel):
                rest = value.model_dump(mode="json", exclude=set(own), by_alias=False)
            else:
                rest = {name: to_jsonable_python(getattr(value, name)) for name in names if name not in own}
            made = dict[str, Any]()
            for name in names:
                if name not in own:
                    made[name] = rest.pop(name)
                else:
                    found = getattr(value, name)
                    made[name] = None if found is None else own[name](found)
            return {**made, **rest}

        self._records[record] = write
        return write

    def _union(self, union: Union) -> Convert:
        if union.optional is not None:
            inner = self._each(union.optional)
            return lambda value: None if value is None else inner(value)
        branches, writers = _branches(union), {}
        for cls, branch in branches.items():
            writers[cls] = self._each(branch)
        names, adapter = {name_of(branch) for branch in branches.values()}, _late_adapter(union)

        def is_read_as(cls: type, form: Any) -> bool:
            if _is_marked(form, names):
                return False
            try:
                found = adapter().validate_json(to_json(form))
            except ValidationError:
                return False
            return _branch_of(found, branches) is cls and writers[cls](found) == form

        def write(value: Any) -> Any:
            cls = None if value is None else _branch_of(value, branches)
            if cls is None:
                return json_of(value)
            form = writers[cls](value)
            return form if is_read_as(cls, form) else {_TYPE: name_of(branches[cls]), _VALUE: form}

        return write


class _Readers:
    """The functions from the JSON of one class's types to what Pydantic takes; None where it takes the JSON itself."""

    def __init__(self) -> None:
        self._records: dict[Record, Convert] = {}

    def of(self, node: Node, where: str) -> Convert | None:  # noqa: PLR0911  one answer for each kind
        if not any(map(_is_lossy, nodes_in(node))):
            return None
        match node:
            case Plain(python=kind):
                return _blob_reader(where) if kind is bytes else None
            case Array(items=items):
                item = self.of(items, where) or _same
                return lambda found: [item(each) for each in found] if isinstance(found, list) else found
            case StringMap(values=values):
                inner = self.of(values, where) or _same
                return lambda found: (
                    {name: inner(each) for name, each in found.items()} if isinstance(found, dict) else found
                )
            case Record():
                return self.record(node)
            case Union():
                return self._union(node, where)
            case _:
                return None

    def record(self, record: Record) -> Convert:
        if record in self._records:
            return self._records[record]
        self._records[record] = lambda found: read(found)  # noqa: PLW0108  made below: it may lead back here
        own = {
            field.name: to
            for field in record.fields
            if (to := self.of(field.node, f"{record.name}.{field.name}")) is not None
        }

        def read(found: Any) -> Any:
            if not isinstance(found, dict):
                return found
            return {name: own[name](each) if name in own else each for name, each in found.items()}

        self._records[record] = read
        return read

    def _union(self, union: Union, where: str) -> Convert | None:
        if union.optional is not None:
            return self.of(union.optional, where)
        by_name = {name_of(branch): self._branch(branch, where) for branch in _branches(union).values()}
        adapter = _late_adapter(union)

        def read(found: Any) -> Any:
            if _is_marked(found, by_name):
                return by_name[found[_TYPE]](found[_VALUE])
            return None if found is None else adapter().validate_json(to_json(found))

        return read

    def _branch(self, branch: Node, where: str) -> Convert:
        adapter, inner = _late_adapter(branch), self.of(branch, where)

        def read(found: Any) -> Any:
            return adapter().validate_json(to_json(found)) if inner is None else adapter().validate_python(inner(found))

        return read


def _is_lossy(node: Node) -> bool:
    match node:
        case Plain(python=kind):
            return kind is float or kind is bytes
        case Union():
            return node.optional is None
        case _:
            return False


def _branches(union: Union) -> dict[type, Node]:
    return {class_of(branch): branch for branch in union.branches if branch != NULL}


def _branch_of(value: Any, branches: Mapping[type, Node]) -> type | None:
    return next((base for base in value.__class__.__mro__ if base in branches), None)


def _is_marked(form: Any, names: Iterable[str]) -> bool:
    return isinstance(form, dict) and form.keys() == {_TYPE, _VALUE} and form[_TYPE] in names


def _late_adapter(node: Node) -> Callable[[], TypeAdapter[Any]]:
    """Return what makes the adapter of a type once: a class may name others that are declared further down."""
    return lru_cache(maxsize=1)(lambda: TypeAdapter(_annotation(node)))


def _annotation(node: Node) -> Any:
    match node:
        case Plain(python=cls) | Symbols(cls=cls) | Record(cls=cls):
            return cls
        case Exact():
            return Decimal
        case Choice(values=values):
            return Literal[values]
        case Array(items=items, container=container):
            item = _annotation(items)
            return GenericAlias(container, (item, ...) if container is tuple else (item,))
        case StringMap(values=inner):
            return GenericAlias(dict, (str, _annotation(inner)))
        case Union(branches=branches):
            return AnyOf[tuple(map(_annotation, branches))]  # noqa: UP007  of what is known when it runs


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, by_alias=False)


def _number(value: Any) -> Any:
    if not isinstance(value, float) or value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124  only NaN differs from itself


def _blob(value: Any) -> Any:
    try:
        text: str = value.decode()
    except UnicodeDecodeError:
        return BASE64 + b64encode(value).decode()
    except AttributeError:
        return json_of(value)  # an event that nothing validated
    return BASE64 + b64encode(value).decode() if text.startswith(BASE64) else text


def _blob_reader(where: str) -> Convert:
    def read(found: Any) -> Any:
        if not isinstance(found, str) or not found.startswith(BASE64):
            return found
        try:
            return b64decode(found.removeprefix(BASE64), validate=True)
        except ValueError as error:
            raise ContractError(f"{where}: {found!r:.60} is not base64 behind {BASE64!r}: {error}") from error

    return read
