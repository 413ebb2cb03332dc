"""Avro schemas, read as strictly as Java's parser reads them.

Source: Apache Avro 1.12 specification, "Schema Declaration", "Names", "Aliases", "Logical Types".
"""

import re
from collections.abc import Iterable
from typing import Any

from eventlib.registry.parsing.avro_types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    empty_values,
    misfit,
    name_of,
)
from eventlib.registry.parsing.parsed import DEEPEST, InvalidSchema

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAMED = frozenset({"record", "error", "enum", "fixed"})
_MOST_DIGITS = 10_000
MOST_EMPTY = 100_000
"""How many values that take no bytes a record may consist of: readers of its data give up on more."""


def avro_type(document: Any, referenced: Iterable[Any] = ()) -> Type:
    """Return a schema's type; `referenced` are the documents whose names it may use. Raises: InvalidSchema."""
    reading = _Reading()
    for other in referenced:
        reading.type(other, "", "the reference", 0)
    found = reading.type(document, "", "", 0)
    reading.check_defaults()
    reading.check_empty()
    return found


class _Reading:
    """The names that one schema has defined so far, and the defaults that can be judged when all are known."""

    def __init__(self) -> None:
        self._named: dict[str, Named] = {}
        self._defaults: list[tuple[str, Field]] = []

    def type(self, schema: Any, namespace: str, path: str, depth: int) -> Type:
        """Return the type at a path."""
        if depth > DEEPEST:
            raise InvalidSchema(f"{path[:80]}…: it is nested more than {DEEPEST} deep")
        match schema:
            case str():
                return self._by_name(schema, namespace, path)
            case list():
                return self._union(schema, namespace, path, depth)
            case {"type": str(kind)}:
                return self._defined(kind, schema, namespace, path, depth)
            case {"type": dict() | list() as inner}:
                return self.type(inner, namespace, path, depth + 1)
        raise InvalidSchema(f'{path or "/"}: expected a type\'s name, a union or an object with "type"')

    def check_defaults(self) -> None:
        """Refuse defaults that are no values of their fields' types."""
        for path, each in self._defaults:
            reason = misfit(each.default, each.type)
            if reason is not None:
                raise InvalidSchema(f"{path}/default: {reason}")

    def check_empty(self) -> None:
        """Refuse records that make values without end of no bytes: nested in each other, they double with each level."""
        known = dict[str, int]()
        for name, each in self._named.items():
            if empty_values(each, known) > MOST_EMPTY:
                raise InvalidSchema(
                    f"{name[:80]} consists of more than {MOST_EMPTY:,} values that take no bytes: nest fewer records of nulls"
                )

    def _by_name(self, name: str, namespace: str, path: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full)
        if found is None:
            raise InvalidSchema(f"{path or '/'}: there is no type {full!r}: define it before, or refer to its schema")
        return found

    def _union(self, branches: list[Any], namespace: str, path: str, depth: int) -> Union:
        found = tuple(self.type(each, namespace, f"{path}/{i}", depth + 1) for i, each in enumerate(branches))
        seen = set[str]()
        for i, each in enumerate(found):
            if isinstance(each, Union):
                raise InvalidSchema(f"{path}/{i}: a union cannot be in a union")
            key = name_of(each)
            if key in seen:
                raise InvalidSchema(f"{path}/{i}: {key} is in the union twice")
            seen.add(key)
        return Union(found)

    def _defined(self, kind: str, schema: dict[str, Any], namespace: str, path: str, depth: int) -> Type:
        if kind in PRIMITIVES:
            return Primitive(kind, logical_of(schema, kind))
        if kind in _NAMED:
            return self._named_type(kind, schema, namespace, path, depth)
        match kind:
            case "array":
                return Array(self.type(_part(schema, "items", path), namespace, f"{path}/items", depth + 1))
            case "map":
                return Map(self.type(_part(schema, "values", path), namespace, f"{path}/values", depth + 1))
        return self._by_name(kind, namespace, path)

    def _named_type(self, kind: str, schema: dict[str, Any], namespace: str, path: str, depth: int) -> Named:
        full = _full_name(schema, namespace, path)
        if full in self._named:
            raise InvalidSchema(f"{path}/name: {full} is defined twice: refer to the first by its name")
        own = full.rpartition(".")[0]
        aliases = frozenset(each if "." in each or not own else f"{own}.{each}" for each in _aliases(schema, path))
        match kind:
            case "enum":
                self._named[full] = _enum(full, aliases, schema, path)
            case "fixed":
                self._named[full] = _fixed(full, aliases, schema, path)
            case _:
                record = self._named[full] = Record(full, aliases)
                self._fields(record, schema, path, depth)
        return self._named[full]

    def _fields(self, record: Record, schema: dict[str, Any], path: str, depth: int) -> None:
        fields = _part(schema, "fields", path)
        if not isinstance(fields, list):
            raise InvalidSchema(f"{path}/fields: expected a list")
        namespace = record.name.rpartition(".")[0]
        for i, each in enumerate(fields):
            here = f"{path}/fields/{i}"
            if not isinstance(each, dict):
                raise InvalidSchema(f"{here}: expected an object")
            name = _checked_name(each.get("name"), f"{here}/name")
            if name in record.fields:
                raise InvalidSchema(f"{here}/name: there are two fields {name}")
            of = self.type(_part(each, "type", here), namespace, f"{here}/type", depth + 1)
            found = Field(name, tuple(_aliases(each, here)), of, each.get("default", NO_DEFAULT))
            if each.get("order", "ascending") not in {"ascending", "descending", "ignore"}:
                raise InvalidSchema(f"{here}/order: expected ascending, descending or ignore")
            record.fields[name] = found
            if found.default is not NO_DEFAULT:
                self._defaults.append((here, found))


def logical_of(schema: dict[str, Any], kind: str, size: int | None = None) -> Logical | None:
    """Return a type's logical type; one that is not valid there is none, as specified."""
    name = schema.get("logicalType")
    if not isinstance(name, str):
        return None
    if name != "decimal":
        return Logical(name)
    precision, scale = _whole(schema.get("precision")), _whole(schema.get("scale", 0))
    if kind not in {"bytes", "fixed"} or precision is None or scale is None or not 0 <= scale <= precision != 0:
        return None
    if size is not None and 10**precision > 1 << max(8 * size - 1, 0):
        return None
    return Logical(name, precision, scale)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST_DIGITS else None


def _enum(name: str, aliases: frozenset[str], schema: dict[str, Any], path: str) -> Enum:
    symbols = _part(schema, "symbols", path)
    if not isinstance(symbols, list):
        raise InvalidSchema(f"{path}/symbols: expected a list")
    for i, each in enumerate(symbols):
        _checked_name(each, f"{path}/symbols/{i}")
    if len({*symbols}) < len(symbols):
        raise InvalidSchema(f"{path}/symbols: a symbol is there twice")
    default = schema.get("default")
    if default is not None and default not in symbols:
        raise InvalidSchema(f"{path}/default: {default!r} is none of the symbols")
    return Enum(name, aliases, tuple(symbols), default)


def _fixed(name: str, aliases: frozenset[str], schema: dict[str, Any], path: str) -> Fixed:
    size = _part(schema, "size", path)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise InvalidSchema(f"{path}/size: expected a number of bytes, from 0 to 2147483647")
    return Fixed(name, aliases, size, logical_of(schema, "fixed", min(size, 1_000)))


def _full_name(schema: dict[str, Any], namespace: str, path: str) -> str:
    name, own = schema.get("name"), schema.get("namespace")
    if own is not None and not isinstance(own, str):
        raise InvalidSchema(f"{path}/namespace: expected text")
    if isinstance(name, str) and "." in name:
        full = name
    else:
        space = namespace if own is None else own
        full = f"{space}.{_checked_name(name, f'{path}/name')}" if space else _checked_name(name, f"{path}/name")
    for part in full.split("."):
        _checked_name(part, f"{path}/name")
    if full in PRIMITIVES:
        raise InvalidSchema(f"{path}/name: {full} is a type of Avro's own: choose another name")
    return full


def _checked_name(name: Any, path: str) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidSchema(f"{path}: {str(name)[:80]!r} is no name: letters, digits and _, and no digit first")
    return name


def _aliases(schema: dict[str, Any], path: str) -> list[str]:
    aliases = schema.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases):
        raise InvalidSchema(f"{path}/aliases: expected a list of names")
    return aliases


def _part(schema: dict[str, Any], name: str, path: str) -> Any:
    if name not in schema:
        raise InvalidSchema(f'{path or "/"}: "{name}" is missing')
    return schema[name]
