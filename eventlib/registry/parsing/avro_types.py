"""What an Avro schema is made of. Source: Apache Avro 1.12 specification, "Schema Declaration"."""

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
    """Return what tells a type from the others in a union, and in a sentence."""
    return found.name if isinstance(found, Record | Enum | Fixed) else found.kind
