"""Derives Avro types from annotations of Pydantic models and dataclasses.

| Python | Avro |
|---|---|
| str, int, float, bool, bytes | string, long, double, boolean, bytes |
| datetime (aware), date, time | timestamp-micros (UTC), date, time-micros |
| Decimal | decimal; precision and scale from max_digits and decimal_places, else 38 and 18 |
| UUID | string with the logical type uuid |
| Enum | enum: of the values when they are strings, else of the members' names |
| Literal of strings or integers | string or long: a value can be added without a new schema |
| X or None | union, null first, default null |
| list, tuple[X, ...], set, frozenset | array |
| dict[str, X] | map |
| several types | union |
| model, dataclass | record, named as its class; by name from its second use on |
"""

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NewType
from uuid import UUID

from pydantic import AwareDatetime
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from eventlib.errors import WiringError
from eventlib.model.evolution import Aliases, unknown_symbol, version_of, wire_name_of
from eventlib.model.schema.fields import Declared, NotYet, doc_of, fields_of, is_record, with_default
from eventlib.model.schema.types import (
    NULL,
    Array,
    Choice,
    Exact,
    Field,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
)
from eventlib.model.schema.types import name_of as branch_name

DECIMAL_PRECISION = 38  # the most digits that Spark and SQL databases hold
DECIMAL_SCALE = 18

_PLAIN: dict[Any, Plain] = {
    type(None): NULL,
    None: NULL,
    str: Plain(str, "string"),
    int: Plain(int, "long"),
    float: Plain(float, "double"),
    bool: Plain(bool, "boolean"),
    bytes: Plain(bytes, "bytes"),
    datetime: Plain(datetime, "long", "timestamp-micros"),
    AwareDatetime: Plain(datetime, "long", "timestamp-micros"),
    date: Plain(date, "int", "date"),
    time: Plain(time, "long", "time-micros"),
    UUID: Plain(UUID, "string", "uuid"),
}
_CONTAINERS = (list, tuple, set, frozenset)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_REMEDY = (
    "use str, int, float, bool, bytes, datetime, date, time, Decimal, UUID, an Enum, a Literal, a model, a dataclass, "
    "or a list, tuple[X, ...], set, frozenset, dict[str, X] or union of these"
)


def record_of(cls: type[Any]) -> Record:
    """Return the Avro record of a model or dataclass.

    Raises: WiringError naming class, field and remedy, when an annotation has no Avro type.
    """
    if not is_record(cls):
        raise WiringError(f"{cls!r} has no Avro schema: only Pydantic models and dataclasses have one")
    record = _Derivation().record(cls, cls.__name__)
    record.version = version_of(cls)
    return record


def known_record_of(cls: type[Any]) -> Record:
    """Return the record of a model or dataclass with those of its fields that have a type; others cannot be written.

    Raises: NotYet while names that they need are not declared.
    """
    return _Derivation(leaves_out=True).record(cls, cls.__name__)


class _Derivation:
    """One root's schema; named types are made once and then meant by name.

    With `leaves_out` a field without a type is left out, and a class is taken before Pydantic has completed it.
    """

    def __init__(self, *, leaves_out: bool = False) -> None:
        self._named: dict[str, Record | Symbols] = {}
        self._leaves_out = leaves_out

    def record(self, cls: type[Any], where: str) -> Record:
        known = self._known(cls, where)
        if isinstance(known, Record):
            return known
        record = Record(cls, doc_of(cls))
        self._named[record.name] = record
        try:
            for each in fields_of(cls, completes=not self._leaves_out):
                self._add(record, each)
        except WiringError as error:
            self._refuse(error)
        return record

    def _add(self, record: Record, each: Declared) -> None:
        place = f"{record.cls.__name__}.{each.name}"
        try:
            _check_name(each.name, place)
            node = self.node(each.annotation, place, each.metadata)
        except WiringError as error:
            return self._refuse(error)
        field = Field(each.name, node, doc=each.doc, aliases=_aliases(each, place))
        return record.fields.append(with_default(field, each.default))

    def _refuse(self, error: WiringError) -> None:
        if isinstance(error, NotYet) or not self._leaves_out:
            raise error

    def _known(self, cls: type[Any], where: str) -> "Record | Symbols | None":
        name = wire_name_of(cls)
        known = self._named.get(name)
        if known is None:
            _check_name(name, where)
        elif known.cls is not cls:
            raise WiringError(
                f"{where}: {cls.__module__}.{cls.__qualname__} and {known.cls.__module__}.{known.cls.__qualname__} "
                "have one name in the schema; give one of them another"
            )
        return known

    def node(self, annotation: Any, where: str, metadata: Iterable[Any] = ()) -> Node:  # noqa: PLR0911  one answer for each kind
        if annotation in _PLAIN:
            return _PLAIN[annotation]
        if annotation is Decimal:
            return _exact(metadata)
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return self._symbols(annotation, where)
        if isinstance(annotation, type) and is_record(annotation):
            return self.record(annotation, where)
        if isinstance(annotation, NewType):
            return self.node(annotation.__supertype__, where, metadata)
        if isinstance(annotation, TypeAliasType):
            return self.node(annotation.__value__, where, metadata)
        return self._generic(annotation, where, metadata)

    def _generic(self, annotation: Any, where: str, metadata: Iterable[Any]) -> Node:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            return self.node(arguments[0], where, [*metadata, *arguments[1:]])
        if origin is Literal:
            return _choice(arguments, where)
        if origin in {typing.Union, types.UnionType}:
            return self._union(arguments, where, metadata)
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not ...):  # noqa: PLR2004  tuple[X, ...] has two
            raise WiringError(f"{where}: {annotation} mixes positions; write tuple[X, ...], or make it a dataclass")
        if origin in _CONTAINERS:
            return Array(self.node(arguments[0], where), origin)
        if origin is dict and arguments[0] is str:
            return StringMap(self.node(arguments[1], where))
        if origin is dict:
            raise WiringError(f"{where}: {annotation} has keys that are not str; write dict[str, X], as Avro maps are")
        raise WiringError(f"{where}: {_shown(annotation)} has no Avro type; {_REMEDY}")

    def _symbols(self, cls: type[Enum], where: str) -> Symbols:
        known = self._known(cls, where)
        if isinstance(known, Symbols):
            return known
        by_value = all(isinstance(member.value, str) for member in cls)
        members = {str(member.value) if by_value else member.name: member for member in cls}
        for symbol in members:
            if not _NAME.fullmatch(symbol):
                raise WiringError(
                    f"{where}: {cls.__name__} has the value {symbol!r}, which is not an Avro symbol: use ASCII letters, "
                    "digits and '_', not beginning with a digit; or a Literal, which is written as a string"
                )
        made = self._named[wire_name_of(cls)] = Symbols(cls, members, _unknown(cls, members, where))
        return made

    def _union(self, arguments: Iterable[Any], where: str, metadata: Iterable[Any]) -> Node:
        found = [self.node(argument, where, metadata) for argument in arguments]
        branches = dict[str, Node]()
        for node in _flat(found):
            name = branch_name(node)
            merged = _merged(branches.get(name, node), node)
            if merged is None:
                raise WiringError(
                    f"{where}: two of the union's types are {name} in Avro, so a reader could not tell them apart; "
                    "keep one of them, or wrap one in a model"
                )
            branches[name] = merged
        nulls_first = sorted(branches.values(), key=lambda node: node != NULL)
        return nulls_first[0] if len(nulls_first) == 1 else Union(tuple(nulls_first))


def _exact(metadata: Iterable[Any]) -> Exact:
    found = dict[str, int]()
    for constraint in _constraints(metadata):
        for name in ("max_digits", "decimal_places"):
            if (value := getattr(constraint, name, None)) is not None:
                found[name] = value
    digits, places = found.get("max_digits"), found.get("decimal_places")
    if places is None:
        # Without places any digit may stand after the point, so twice as many hold every value.
        return Exact(DECIMAL_PRECISION, DECIMAL_SCALE) if digits is None else Exact(2 * digits, digits)
    return Exact(max(digits or DECIMAL_PRECISION, places, 1), places)


def _constraints(metadata: Iterable[Any]) -> Iterator[Any]:
    for each in metadata:
        if isinstance(each, FieldInfo):
            yield from _constraints(each.metadata)
        else:
            yield each


def _aliases(declared: Declared, where: str) -> tuple[str, ...]:
    annotated = typing.get_args(declared.annotation)[1:] if typing.get_origin(declared.annotation) is Annotated else ()
    names = [name for each in (*declared.metadata, *annotated) if isinstance(each, Aliases) for name in each.names]
    for name in names:
        _check_name(name, where)
    return tuple(dict.fromkeys(names))


def _unknown(cls: type[Enum], members: Mapping[str, Enum], where: str) -> str | None:
    named = unknown_symbol(cls)
    if named is None or named in members:
        return named
    found = next((symbol for symbol, member in members.items() if member.name == named), None)
    if found is None:
        raise WiringError(f"{where}: unknown_is({named!r}) is not a symbol of {cls.__name__}: {', '.join(members)}")
    return found


def _choice(values: tuple[Any, ...], where: str) -> Node:
    given = tuple(value for value in values if value is not None)
    kinds = {type(value) for value in given}
    if kinds not in ({str}, {int}):
        raise WiringError(f"{where}: Literal{list(values)} mixes types; write strings only, integers only, or an Enum")
    choice = Choice("string" if kinds == {str} else "long", given)
    return choice if len(given) == len(values) else Union((NULL, choice))


def _flat(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Union):
            yield from node.branches
        else:
            yield node


def _merged(a: Node, b: Node) -> Node | None:
    """Return the one type for two of a union that are the same in Avro, or None when their values could be mixed up."""
    if a == b:
        return a
    match a, b:
        case Choice(), Choice():
            return Choice(a.avro, (*a.values, *b.values)) if a.avro == b.avro else None
        case (Choice(avro=avro), Plain(python=kind) as wider) | (Plain(python=kind) as wider, Choice(avro=avro)):
            return wider if _PLAIN[kind] == wider and wider.logical is None and wider.avro == avro else None
        case _:
            return None


def _check_name(name: str, where: str) -> None:
    if not _NAME.fullmatch(name):
        raise WiringError(
            f"{where}: {name!r} is not an Avro name: use ASCII letters, digits and '_', not beginning with a digit "
            "(a generic model needs a subclass with a name of its own)"
        )


def _shown(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
