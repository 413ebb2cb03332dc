"""The Avro types that Python annotations map to, and the schema text that they make."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from eventlib.model.evolution import wire_name_of

Json = Any
"""A schema, or a part of one, as JSON has it."""

VERSION = "version"
"""The attribute of a root record that says which version of the contract it is; 1 is not written."""

NO_DEFAULT: Any = object()
"""Stands where a field has no default, since None is one."""


@dataclass(frozen=True)
class Plain:
    """A value without parts: a primitive Avro type, perhaps with a logical type on top."""

    python: type
    avro: str
    logical: str | None = None

    @property
    def json(self) -> Json:
        """The schema."""
        return self.avro if self.logical is None else {"type": self.avro, "logicalType": self.logical}


@dataclass(frozen=True)
class Exact:
    """A Decimal with `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int
    avro: str = "bytes"

    @property
    def json(self) -> Json:
        """The schema."""
        return {"type": "bytes", "logicalType": "decimal", "precision": self.precision, "scale": self.scale}


@dataclass(frozen=True)
class Choice:
    """A Literal of strings or integers: Avro's own enum needs a name, which a Literal does not have."""

    avro: str
    values: tuple[Any, ...]

    @property
    def json(self) -> Json:
        """The schema."""
        return self.avro


@dataclass(frozen=True)
class Symbols:
    """An Enum. Its symbols are its members' values when these are strings, else their names.

    `unknown` is the one that any other symbol is read as.
    """

    cls: type[Enum]
    members: Mapping[str, Enum]
    unknown: str | None = None
    avro: str = "enum"


@dataclass(frozen=True)
class Array:
    """A list, tuple, set or frozenset of items."""

    items: "Node"
    container: type[Iterable[Any]]
    avro: str = "array"


@dataclass(frozen=True)
class StringMap:
    """A dict with string keys."""

    values: "Node"
    avro: str = "map"


@dataclass(frozen=True)
class Union:
    """One of several types, at most one of each Avro type; named types differ by name."""

    branches: "tuple[Node, ...]"
    avro: str = "union"

    @property
    def optional(self) -> "Node | None":
        """The other branch, when this is null and one more."""
        if len(self.branches) == 2 and NULL in self.branches:  # noqa: PLR2004  that is what optional means
            return next(branch for branch in self.branches if branch != NULL)
        return None


@dataclass(frozen=True)
class Field:
    """A field of a record. `fills` is whether the class itself fills it in when it is not given.

    `aliases` are the names that it had before.
    """

    name: str
    node: "Node"
    default: Json = NO_DEFAULT
    fills: bool = False
    doc: str | None = None
    aliases: tuple[str, ...] = ()

    def written_as(self, names: Collection[str]) -> str | None:
        """Return which of the names in a writer's schema is this field's; None when it does not have it."""
        return next((name for name in (self.name, *self.aliases) if name in names), None)


@dataclass(eq=False)
class Record:
    """A Pydantic model or a dataclass. Compared by identity: its fields may lead back to it.

    `version` is the version of the contract that it is the root of.
    """

    cls: type
    doc: str | None
    fields: list[Field] = field(default_factory=list)
    version: int = 1
    avro: str = "record"

    @property
    def name(self) -> str:
        """The record's full name."""
        return wire_name_of(self.cls)


Node = Plain | Exact | Choice | Symbols | Array | StringMap | Union | Record

NULL = Plain(type(None), "null")


def name_of(node: Node) -> str:
    """Return what a union calls a branch: a named type's name, or the Avro type."""
    match node:
        case Record():
            return node.name
        case Symbols(cls=cls):
            return wire_name_of(cls)
        case _:
            return node.avro


def class_of(node: Node) -> type:
    """Return the class by which a union chooses a branch. Raises: TypeError for a union."""
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


def nodes_in(node: Node) -> Iterator[Node]:
    """Yield a type and all types that it is made of, each record once."""
    yield from _nodes(node, set())


def _nodes(node: Node, seen: set[int]) -> Iterator[Node]:
    if id(node) in seen:
        return
    seen.add(id(node))
    yield node
    match node:
        case Array(items=inner) | StringMap(values=inner):
            yield from _nodes(inner, seen)
        case Union(branches=branches):
            for branch in branches:
                yield from _nodes(branch, seen)
        case Record(fields=fields):
            for field in fields:
                yield from _nodes(field.node, seen)
        case _:
            pass


def version_in(schema: Json) -> int:
    """Return which version of its contract a schema is."""
    found = schema.get(VERSION, 1) if isinstance(schema, dict) else 1
    return found if isinstance(found, int) else 1


def schema_text(node: Node) -> str:
    """Return a schema as canonical text: the same for the same class, in every process."""
    return json.dumps(schema_json(node), separators=(",", ":"), ensure_ascii=False)


def schema_json(node: Node, without: Mapping[str, frozenset[str]] | None = None) -> Json:
    """Return a schema as JSON; `without` leaves fields of records out, by the record's name."""
    return _json(node, set(), without or {})


def _json(node: Node, defined: set[str], without: Mapping[str, frozenset[str]]) -> Json:  # noqa: PLR0911  one for each kind
    match node:
        case Plain() | Exact() | Choice():
            return node.json
        case Array(items=items):
            return {"type": "array", "items": _json(items, defined, without)}
        case StringMap(values=values):
            return {"type": "map", "values": _json(values, defined, without)}
        case Union(branches=branches):
            return [_json(branch, defined, without) for branch in branches]
        case Symbols() | Record():
            name = name_of(node)
            if name in defined:
                return name
            defined.add(name)
            if isinstance(node, Symbols):
                made: Json = {"type": "enum", "name": name, "symbols": list(node.members)}
                return made if node.unknown is None else {**made, "default": node.unknown}
            return _record_json(node, defined, without)


def _record_json(record: Record, defined: set[str], without: Mapping[str, frozenset[str]]) -> Json:
    made: dict[str, Json] = {"type": "record", "name": record.name}
    if record.doc:
        made["doc"] = record.doc
    if record.version > 1:
        made[VERSION] = record.version
    left_out = without.get(record.name, frozenset())
    fields = made["fields"] = list[Json]()
    for each in record.fields:
        if each.name in left_out:
            continue
        item: dict[str, Json] = {"name": each.name, "type": _json(each.node, defined, without)}
        if each.aliases:
            item["aliases"] = list(each.aliases)
        if each.doc:
            item["doc"] = each.doc
        if each.default is not NO_DEFAULT:
            item["default"] = each.default
        fields.append(item)
    return made


def without_logical_types(schema: Json, only: frozenset[str] | None = None) -> Json:
    """Return a schema whose values fastavro takes and gives as they are; `only` names the logical types to drop."""
    if isinstance(schema, list):
        return [without_logical_types(each, only) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "logicalType" in schema and (only is None or schema["logicalType"] in only):
        bare = {name: value for name, value in schema.items() if name not in {"logicalType", "precision", "scale"}}
        return bare["type"] if bare.keys() == {"type"} else bare
    made = dict(schema)
    for part in ("type", "items", "values"):
        if part in made:
            made[part] = without_logical_types(made[part], only)
    if "fields" in made:
        made["fields"] = [{**each, "type": without_logical_types(each["type"], only)} for each in made["fields"]]
    return made
