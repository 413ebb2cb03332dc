"""What an Avro schema is made of, and whether a default is a value of its field's type."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NO_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class Logical:
    """What a type's values mean; precision and scale are a decimal's."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts."""

    kind: str
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type."""

    items: "Type"
    kind: str = "array"


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type under keys of text."""

    values: "Type"
    kind: str = "map"


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple["Type", ...]
    kind: str = "union"


@dataclass(frozen=True, slots=True)
class Enum:
    """One of several symbols."""

    name: str
    aliases: frozenset[str]
    symbols: tuple[str, ...]
    default: str | None
    kind: str = "enum"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number of bytes."""

    name: str
    aliases: frozenset[str]
    size: int
    logical: Logical | None
    kind: str = "fixed"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    type: "Type"
    default: Any


@dataclass(eq=False, slots=True)
class Record:
    """Fields by name; not frozen, since a field may be of the record itself."""

    name: str
    aliases: frozenset[str]
    fields: dict[str, Field] = field(default_factory=dict)
    kind: str = "record"


Named: TypeAlias = Record | Enum | Fixed
Type: TypeAlias = Primitive | Array | Map | Union | Named


def name_of(found: Type) -> str:
    """Return what distinguishes a type in a union, and in a sentence."""
    return found.name if isinstance(found, Record | Enum | Fixed) else found.kind


def empty_values(of: Type, known: dict[str, int]) -> int:
    """Return how many values that take no bytes a value of a type consists of; 0 for a type that takes some.

    `known` has the answers for records by name, and gets those that are found.
    """
    match of:
        case Primitive(kind="null"):
            return 1
        case Fixed(size=0):
            return 1
        case Record(name=name):
            if name not in known:
                known[name] = 0  # one that contains itself has no value without a union or an array, which take bytes
                parts = [empty_values(each.type, known) for each in of.fields.values()]
                known[name] = 1 + sum(parts) if all(parts) else 0
            return known[name]
        case _:
            return 0


_INT, _LONG = 1 << 31, 1 << 63


def misfit(value: Any, of: Type) -> str | None:  # noqa: PLR0911  one answer for each kind
    """Return why a JSON value is no value of a type, or None when it is one; of a union, of any branch.

    Avro 1.12 lets a default be of any branch; Java's parser and fastavro do so too.
    """
    match of:
        case Primitive(kind=kind):
            return None if _is_primitive(value, kind) else _expected(kind, value)
        case Union(branches=branches):
            fits = any(misfit(value, each) is None for each in branches)
            return None if fits else f"{_shown(value)} is of no branch of the union"
        case Array(items=items):
            return _first(value, items) if isinstance(value, list) else _expected("a list", value)
        case Map(values=values):
            return _first([*value.values()], values) if isinstance(value, dict) else _expected("an object", value)
        case Enum(symbols=symbols):
            return None if value in symbols else f"{_shown(value)} is none of the symbols"
        case Fixed(size=size):
            fits = _is_primitive(value, "bytes") and len(value) == size
            return None if fits else f"{_shown(value)} is not {size} bytes"
        case Record():
            return _record(value, of) if isinstance(value, dict) else _expected("an object", value)


def _record(value: dict[str, Any], of: Record) -> str | None:
    for each in of.fields.values():
        if each.name not in value and each.default is NO_DEFAULT:
            return f"the field {each.name} is missing"
        if each.name in value and (reason := misfit(value[each.name], each.type)) is not None:
            return f"{each.name}: {reason}"
    return None


def _first(values: list[Any], of: Type) -> str | None:
    return next((reason for each in values if (reason := misfit(each, of)) is not None), None)


def _is_primitive(value: Any, kind: str) -> bool:  # noqa: PLR0911  one answer for each type
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return whole and -_INT <= value < _INT
        case "long":
            return whole and -_LONG <= value < _LONG
        case "float" | "double":
            return whole or isinstance(value, float)
        case "bytes":
            return isinstance(value, str) and all(ord(each) < 256 for each in value)  # noqa: PLR2004  a character is a byte
        case _:
            return isinstance(value, str)


def _expected(what: str, value: Any) -> str:
    return f"expected {what}, not {_shown(value)}"


def _shown(value: Any) -> str:
    return repr(value)[:80]
