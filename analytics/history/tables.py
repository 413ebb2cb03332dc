"""The tables that a fold of the journals makes, from a choreography alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import types as t

from analytics.audit.routing import Routes
from analytics.columns import struct_of
from analytics.projection import Projection
from eventlib.index import tables
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.schema.derive import record_of

EFFECTS, PARKED, DEADLINES, ERRORS = "effects", "parked", "deadlines", "fold_errors"

_TEXT, _TIME, _NUMBER, _FLAG = t.StringType(), t.TimestampType(), t.LongType(), t.BooleanType()

_TYPES: dict[str, t.DataType] = {"string": _TEXT, "timestamp": _TIME, "bigint": _NUMBER}
_PLAIN: dict[str, dict[str, t.DataType]] = {
    name: {column: _TYPES[kind] for column, (kind, _) in columns.items()} for name, (_, columns) in tables.PLAIN.items()
} | {
    ERRORS: {
        **dict.fromkeys(("service", "decider", "key", "input_id", "input_type"), _TEXT),
        "at": _TIME,
        "reason": _TEXT,
    },
}
_KEYS = {
    EFFECTS: ("id",),
    PARKED: ("service", "decider", "key", "input_id", "parked_at"),
    DEADLINES: ("service", "decider", "name", "key", "set_at", "due_at"),
    ERRORS: ("service", "decider", "key", "input_id", "at"),
}
_DOCS = {
    EFFECTS: "One row per request to the outside world, with its answer.",
    PARKED: "One row per input or effect that was parked, with what became of it.",
    DEADLINES: "One row per deadline that was set, with whether it passed or was cancelled.",
    ERRORS: "One row per event that the current code cannot apply to a state, which stays as it was.",
}
_OF_STATE: dict[str, t.DataType] = {
    "key": _TEXT,
    "changed_by": _TEXT,
    "changed_at": _TIME,
    "partition": t.IntegerType(),
}
_OF_PERIOD: dict[str, t.DataType] = {"valid_from": _TIME, "valid_to": _TIME, "set_by": _TEXT, "removed": _FLAG}


@dataclass(frozen=True)
class FoldTable:
    """A table of a fold: its columns in order, its key, and how it changes from one version to the next.

    `changes` is `whole` for a table that each version rewrites, and `settles` for one whose rows are open, to be written
    anew with each version, until they are settled, and then stay as they are.
    """

    name: str
    key: tuple[str, ...]
    schema: t.StructType
    changes: Literal["whole", "settles"]
    staged: str
    doc: str

    @property
    def settled(self) -> Projection:
        """The rows among a fold's that are settled, of a table that `settles`: they are appended."""
        return self._projection(is_open=False)

    @property
    def open(self) -> Projection:
        """The rows among those carried on that may still change: they replace the open ones of the version before."""
        return self._projection(is_open=True)

    def _projection(self, *, is_open: bool) -> Projection:
        renamed = {"changed_by": "set_by"} if "valid_from" in self.schema.names else {}
        sources = {name: f"{self.staged}.{renamed.get(name, name)}" for name in self.schema.names}
        return Projection(self.schema, sources, {"table": self.staged, "open": is_open}, present=self.staged)


def state_fields(decider: Decider[Any]) -> t.StructType:
    """Return the columns of a decider's states. Raises: WiringError for a state that contains itself."""
    struct = struct_of(record_of(decider.state))
    columns = zip(tables.state_fields(decider), struct.fields, strict=True)
    return t.StructType([t.StructField(each.column, own.dataType) for each, own in columns])


def deciders_of(choreography: Choreography) -> Sequence[Decider[Any]]:
    """Return the deciders whose past is kept, in their services' order."""
    return [decider for service in Routes(choreography).services for decider in service.deciders]


def tables_of(choreography: Choreography) -> Sequence[FoldTable]:
    """Return the tables of a choreography. Raises: WiringError for a state that contains itself."""
    found = list[FoldTable]()
    for decider in deciders_of(choreography):
        name, fields = tables.state_table(decider), state_fields(decider).fields
        key = ("key",) if decider.key is not None else ("key", "partition")
        state = [_field("key"), *fields, _field("changed_by"), _field("changed_at"), _field("partition")]
        period = [_field("key"), *fields, *map(_field, ("valid_from", "valid_to", "changed_by", "removed"))]
        found += [
            FoldTable(
                name, key, t.StructType(state), "whole", name, f"Each key's state under the decider {decider.name}."
            ),
            FoldTable(
                f"{name}_history",
                ("key", "valid_from", "changed_by"),
                t.StructType(period),
                "settles",
                name,
                f"Every state that a key has had under the decider {decider.name}, and from when to when.",
            ),
        ]
    found += [
        FoldTable(
            name, _KEYS[name], t.StructType([t.StructField(*c) for c in columns.items()]), "settles", name, _DOCS[name]
        )
        for name, columns in _PLAIN.items()
    ]
    return found


def staged_of(choreography: Choreography) -> dict[str, t.StructType]:
    """Return what a fold's rows have for each table: times are in ms, but for those of a state's own fields."""
    found = {name: t.StructType([_in_ms(*c) for c in columns.items()]) for name, columns in _PLAIN.items()}
    for decider in deciders_of(choreography):
        fields = [_in_ms(*c) for c in (_OF_STATE | _OF_PERIOD).items()]
        found[tables.state_table(decider)] = t.StructType([*fields, *state_fields(decider).fields])
    return found


def shown_fields(decider: Decider[Any]) -> Sequence[tuple[str, bool]]:
    """Return a state's fields in order, and whether each is shown: personal ones are NULL in every table."""
    return [(each.name, each.is_shown) for each in tables.state_fields(decider)]


def _field(name: str) -> t.StructField:
    return t.StructField(name, (_OF_STATE | _OF_PERIOD)[name])


def _in_ms(name: str, kind: t.DataType) -> t.StructField:
    return t.StructField(name, _NUMBER if kind == _TIME else kind)
