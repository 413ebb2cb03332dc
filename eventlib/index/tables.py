"""Which tables there are: those of the analytics, by the same names and columns, as far as they exist live."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from eventlib.errors import WiringError
from eventlib.index.columns import Convert, SqlType, column_type, contains_itself
from eventlib.model.choreography import Choreography
from eventlib.model.decider import Decider
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.schema.derive import record_of
from eventlib.values import snake_case

META = {
    "topic": ("string", "The topic of its record."),
    "partition": ("int", "The partition of its record."),
    "offset": ("bigint", "The offset of its record."),
    "key": ("string", "The key of its record."),
    "recorded_at": ("timestamp", "When it was written to the log (UTC)."),
    "id": ("string", "The event's id."),
    "source": ("string", "The service and decider that emitted it."),
    "correlation_id": ("string", "The same for all events that follow from one input."),
    "causation_id": ("string", "The id of the input that led to it."),
}
_OF_EVENTS = {*META, "type", "schema_id", "decoded"}
_OF_STATES = {"key", "changed_by", "changed_at", "partition", "valid_from", "valid_to", "set_by", "removed"}
ONLY_REBUILT = {
    "deadlines": {"set_at"},
    "effects": {"attempts"},
    "parked": {"attempts"},
}
"""Columns that only the rebuilt tables have: a log's newest records do not tell them."""


class AskedFor(NamedTuple):
    """What a saga waits for by an effect: its request's type, how `waits_for` shows it, and the types of its answers."""

    request: str
    label: str
    answers: tuple[str, ...]


def asked_for(choreography: Choreography) -> list[AskedFor]:
    """Return the effects of a choreography, in its order: an open saga waits for the first one without an answer."""
    return [
        AskedFor(
            contract_of(request).type,
            f"effect:{effect.ask.port or '-'}/{getattr(effect.ask.call, '__name__', request.__name__)}",
            tuple(contract_of(each).type for each in effect.emits),
        )
        for decider in choreography.deciders
        for request, effect in decider.effects.items()
    ]


class Awaited(NamedTuple):
    """What an effect awaits: the deadline that ends that, its decider, and how `waits_for` shows it."""

    decider: str
    deadline: str
    label: str


def awaited(choreography: Choreography) -> list[Awaited]:
    """Return what the effects of a choreography await, in its order."""
    return [
        Awaited(decider.name, effect.within, f"awaited:{' or '.join(contract_of(each).type for each in effect.awaits)}")
        for decider in choreography.deciders
        for effect in decider.effects.values()
        if effect.within is not None
    ]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an event or a state as a column; without a `type`, its values are personal and not shown."""

    name: str
    column: str
    type: SqlType
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table that questions can name: its columns, each with its type and meaning, and what its rows are."""

    name: str
    doc: str
    columns: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Declared:
    """What the tables of a choreography follow from: its events and deciders, by the rules of the rebuilt tables."""

    choreography: Choreography

    @cached_property
    def saga_field(self) -> str:
        """The field whose values are the keys of sagas; empty: then a correlation id is a saga."""
        return self.choreography.saga_field

    @cached_property
    def events(self) -> dict[str, type[Event]]:
        """The events that have tables, by type. Raises: WiringError when two would have one."""
        found = {contract_of(event).type: event for event in self.choreography.events if is_tabular(event)}
        _refuse_twice("events", "event", found)
        return found

    @cached_property
    def steps(self) -> dict[str, type[Event]]:
        """The events that are steps of sagas, by type."""
        story = self.saga_field
        every = {contract_of(event).type: event for event in self.choreography.events}
        return {name: event for name, event in every.items() if not story or story in event.model_fields}

    @cached_property
    def deciders(self) -> dict[str, Decider[Any]]:
        """The deciders whose states have tables, by name. Raises: WiringError when two would have one."""
        found = {
            each.name: each
            for each in self.choreography.deciders
            if each.handlers and not contains_itself(record_of(each.state))
        }
        _refuse_twice("deciders", "state", found)
        return found

    def types(self, *, failing: bool = False, reversing: bool = False, final: bool = False) -> list[str]:
        """Return the types of steps that are one of these."""
        return [
            name
            for name, event in self.steps.items()
            if (failing and event in self.choreography.failures)
            or (reversing and contract_of(event).reverses)
            or (final and contract_of(event).final)
        ]


def is_keyed(event: type[Event], field: str) -> bool:
    """Return whether a saga is the key of an event's record: it is known then without the event."""
    contract = contract_of(event)
    return bool(field) and contract.key == field and contract.external is None


def reason_of(event: type[Event]) -> Convert | None:
    """Return the function to what an event gives as its reason; None where that is personal, or no text."""
    found = next((each for each in record_of(event).fields if each.name == "reason"), None)
    if found is None or "reason" in personal_fields(event):
        return None
    kind = column_type(found.node)
    return kind.value if kind.name == "string" else None


def event_fields(event: type[Event]) -> list[Field]:
    """Return an event's fields; personal ones are masked when a row is written."""
    return _fields(event, "event", _OF_EVENTS)


def state_fields(decider: Decider[Any]) -> list[Field]:
    """Return a state's fields; personal ones are not shown."""
    return _fields(decider.state, "state", _OF_STATES)


def event_table(event: type[Event]) -> str:
    """Return the name of an event's table."""
    return f"event_{snake_case(contract_of(event).type)}"


def state_table(decider: Decider[Any]) -> str:
    """Return the name of a decider's table."""
    return f"state_{snake_case(decider.name)}"


def live_tables(choreography: Choreography) -> list[LiveTable]:
    """Return the tables of a choreography's log. Raises: WiringError when two would have one name."""
    declared = Declared(choreography)
    states = [_of_decider(decider) for decider in declared.deciders.values()]
    events = [_of_event(event) for event in declared.events.values()]
    steps = LiveTable(
        "saga_steps", "One row per event of each saga, with its cause.", step_columns(declared.saga_field or "saga")
    )
    plain = [
        LiveTable(name, doc, {column: kind for column, kind in columns.items() if column not in ONLY_REBUILT[name]})
        for name, (doc, columns) in PLAIN.items()
    ]
    return [SAGAS, steps, *states, *plain, *events]


def step_columns(key: str) -> dict[str, tuple[str, str]]:
    """Return the columns of `saga_steps`, of which `key` has the saga."""
    return {key: ("string", "The saga.")} | {
        "recorded_at": META["recorded_at"],
        "type": ("string", "The event's type."),
        **{name: META[name] for name in ("id", "source", "correlation_id", "causation_id")},
        "cause_type": ("string", "The type of the event that led to it."),
        "cause_at": ("timestamp", "The time of that event (UTC)."),
        "since_cause_ms": ("bigint", "The time between them."),
        **{name: META[name] for name in ("topic", "partition", "offset")},
    }


def _texts(names: str, kind: str = "string") -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names.split(), (kind, ""))


SAGAS = LiveTable(
    "sagas",
    "One row per saga: how it went, how it ended, and what it waits for.",
    {
        "saga": ("string", "The saga: the key of what ends it, or the correlation id where nothing does."),
        "started_at": ("timestamp", "The time of its first event (UTC)."),
        "ended_at": ("timestamp", "The time of its first final event (UTC); NULL while it is open."),
        "outcome": ("string", "The type of that event in snake case, or `open`."),
        "reason": ("string", "What that event gives as its reason, or what its first failure does."),
        "duration_ms": ("bigint", "From its first event to its end."),
        "steps": ("bigint", "How many events it has."),
        "failures": ("bigint", "How many of them are failures."),
        "compensations": ("bigint", "How many of them reverse another."),
        "last_at": ("timestamp", "The time of its last event so far (UTC)."),
        "waits_for": (
            "string",
            "What an open one waits for: the answer of an effect, what an effect awaits, or an event.",
        ),
    },
)
PLAIN: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "effects": (
        "One row per request to the outside world, with its answer.",
        _texts("id service decider handler port key saga")
        | _texts("requested_at answered_at", "timestamp")
        | _texts("attempts", "bigint")
        | {"outcome": ("string", "The answer's type, `open`, or `parked`; NULL: it was given up.")}
        | _texts("latency_ms", "bigint"),
    ),
    "parked": (
        "One row per input or effect that is parked now; what was released is in the rebuilt tables.",
        _texts("service decider key saga")
        | _texts("parked_at", "timestamp")
        | _texts("reason input_id input_type")
        | _texts("attempts", "bigint")
        | {"released_at": ("timestamp", "NULL."), "how": ("string", "NULL.")},
    ),
    "deadlines": (
        "One row per deadline to come; those that are over are in the rebuilt tables.",
        _texts("service decider name key saga")
        | _texts("set_at due_at", "timestamp")
        | {"passed_at": ("timestamp", "NULL."), "cancelled_at": ("timestamp", "NULL.")},
    ),
}
"""The tables of what waits: what their rows are live, and their columns in order, also those that only rebuilt ones have."""


def _of_event(event: type[Event]) -> LiveTable:
    fields = {
        each.column: (each.type.name, event.model_fields[each.name].description or "") for each in event_fields(event)
    }
    return LiveTable(event_table(event), (event.__doc__ or "").partition("\n")[0], {**META, **fields})


def _of_decider(decider: Decider[Any]) -> LiveTable:
    fields = {
        each.column: (each.type.name, "" if each.is_shown else "Personal: NULL.") for each in state_fields(decider)
    }
    columns = {
        "key": ("string", ""),
        **fields,
        "changed_by": ("string", "The id of the event that changed it last."),
        "changed_at": ("timestamp", "When that was (UTC)."),
        "partition": ("int", ""),
    }
    return LiveTable(state_table(decider), f"Each key's state under the decider {decider.name}.", columns)


def _fields(cls: type[Any], what: str, reserved: set[str]) -> list[Field]:
    hidden = personal_fields(cls) if what == "state" else {}
    return [
        Field(
            each.name,
            f"{what}_{each.name}" if each.name in reserved else each.name,
            column_type(each.node),
            each.name not in hidden,
        )
        for each in record_of(cls).fields
    ]


def is_tabular(event: type[Event]) -> bool:
    """Return whether an event has columns: an Avro or external one that does not contain itself."""
    contract = contract_of(event)
    is_avro = contract.external is not None or contract.topic.format == "avro"
    return is_avro and not contains_itself(record_of(event))


def _refuse_twice(what: str, kind: str, names: Sequence[str] | dict[str, Any]) -> None:
    tables = [f"{kind}_{snake_case(name)}" for name in names]
    twice = next((name for name in tables if tables.count(name) > 1), None)
    if twice is not None:
        raise WiringError(f"two {what} would have the table {twice}: their names differ by more than their capitals")
