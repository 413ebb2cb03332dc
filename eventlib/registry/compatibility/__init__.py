"""Whether a new schema and those before it read each other's data: pure functions, one rule book for each format.

A schema *reads* another when every value that was written with the other can be read with it. BACKWARD: the new one
reads the latest; FORWARD: the latest reads the new one; FULL: both; TRANSITIVE: with all versions, not the latest only.
"""

from collections.abc import Sequence
from enum import StrEnum

from eventlib.registry.compatibility.base import Budget, Incompatibility, OverBudgetError, within
from eventlib.registry.parsing import Parsed, SchemaType

__all__ = [
    "Budget",
    "Incompatibility",
    "Level",
    "OverBudgetError",
    "SchemaType",
    "compared",
    "incompatibilities",
    "unreadable",
    "within",
]


class Level(StrEnum):
    """Which versions have to read which."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """Whether every earlier version counts, and not only the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def backward(self) -> bool:
        """Whether the new schema has to read what was written before."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """Whether what was there before has to read what the new schema writes."""
        return self.value.startswith(("FORWARD", "FULL"))


def incompatibilities(kind: SchemaType, new: Parsed, old: Sequence[Parsed], level: Level) -> list[Incompatibility]:
    """Return what a level forbids about a new schema, given those before it, the oldest first."""
    if level is Level.NONE or not old:
        return []
    found = list[Incompatibility]()
    for each in reversed(old) if level.transitive else [old[-1]]:
        if each.kind is not kind:
            reason = f"it was {each.kind} before and is {kind} now: start a new subject for another format"
            found.append(Incompatibility("SCHEMA_TYPE_CHANGED", "/", reason))
            continue
        if level.backward:
            found += unreadable(reader=new, writer=each)
        if level.forward:
            found += unreadable(reader=each, writer=new)
    return list(dict.fromkeys(found))


def unreadable(*, reader: Parsed, writer: Parsed) -> list[Incompatibility]:
    """Return what keeps a schema from reading another's data; both of one format."""
    return [] if reader == writer else list(dict.fromkeys(compared(reader=reader, writer=writer)))


def compared(*, reader: Parsed, writer: Parsed) -> list[Incompatibility]:
    """Compare two schemas of one format type by type, also where they are equal."""
    match reader.kind:
        case SchemaType.AVRO:
            from eventlib.registry.compatibility.avro import avro_unreadable

            return avro_unreadable(reader.model, writer.model)
        case SchemaType.JSON:
            from eventlib.registry.compatibility.json_schema import json_unreadable

            return json_unreadable(reader.model, writer.model)
        case SchemaType.PROTOBUF:
            from eventlib.registry.compatibility.protobuf import protobuf_unreadable

            return protobuf_unreadable(reader.model, writer.model)
