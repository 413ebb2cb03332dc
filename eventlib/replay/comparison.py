"""Compares what the current code emits with what was emitted, field by field."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from eventlib.json_form import json_of, json_text
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.measures import measures_of
from eventlib.model.record import Record, key_text
from eventlib.replay.partition_buffer import Item
from eventlib.replay.report import ComparedEvent, Difference, Input, Kind


@dataclass(frozen=True, slots=True)
class OutputQuery:
    """Which decisions are compared: since a time (ms), and of these sagas (correlation ids); None: all."""

    since_ms: int = 0
    sagas: frozenset[str] | None = None

    def about(self, correlation_id: str | None) -> bool:
        """Return whether decisions of this saga are compared."""
        return self.sagas is None or correlation_id in self.sagas


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, recorded and replayed: its input, what was emitted (`then`), what would be (`now`), what failed."""

    handler: str
    key: str
    at_ms: int
    input: Input
    then: Sequence[Item]
    now: Sequence[Event]
    kind: Kind | None = None
    why: str = ""


def same(now: Sequence[Event], then: Sequence[Item]) -> bool:
    """Return whether events equal the emitted ones: types, contents, keys, topics and order."""
    if len(now) != len(then):
        return False
    for event, (record, emitted) in zip(now, then, strict=True):
        if event is not emitted and (
            type(event) is not type(emitted) or not (event.__dict__ == emitted.__dict__ or _equal(event, emitted))
        ):
            return False
        topic, key = _topic_and_key(type(event))
        if topic != record.topic or (None if key is None else str(event.__dict__[key]).encode()) != record.key:
            return False
    return True


def _equal(event: Event, emitted: Event) -> bool:
    """Compare serialized forms: NaN is not equal to itself."""
    return json_text(event) == json_text(emitted)


@lru_cache(maxsize=1_024)
def _topic_and_key(event_type: type[Event]) -> tuple[str, str | None]:
    contract = contract_of(event_type)
    return contract.topic.name, contract.key


class Describer:
    """Makes differences readable: events as their fields, sagas by key.

    A saga's key is the key field of the events that end it.
    """

    def __init__(self, choreography: Choreography) -> None:
        contracts = [contract_of(event) for event in choreography.events]
        self._fields = tuple(dict.fromkeys(c.key for c in contracts if c.final and c.key is not None))

    def difference(self, decision: Decision) -> Difference:
        """Return the difference that a decision makes."""
        facts = [decision.input.facts, *(_facts(e) for e in decision.now), *(_facts(e) for _, e in decision.then)]
        kind: Kind = "other" if decision.then and decision.now else "silent" if decision.then else "talks"
        return Difference(
            decision.handler,
            decision.kind or kind,
            decision.key,
            self._saga(facts) or decision.key,
            decision.at_ms,
            decision.input,
            tuple(recorded_event(event, record) for record, event in decision.then),
            tuple(compared_event(event) for event in decision.now),
            decision.why,
        )

    def _saga(self, facts: Iterable[Mapping[str, object]]) -> str:
        for each in facts:
            for name in self._fields:
                if each.get(name):
                    return str(each[name])
        return ""


def input_of(record: Record, event: object) -> Input:
    """Return a record as the input of a decision."""
    location = record.topic, record.partition, record.offset
    return Input(record.type or type(event).__name__, record.event_id, *location, facts=_facts(event))


def compared_event(event: Event) -> ComparedEvent:
    """Return an event as it would be emitted."""
    contract = contract_of(type(event))
    return ComparedEvent(
        contract.type, key_of(event) or "", contract.topic.name, _facts(event), measures=measures_of(event)
    )


def recorded_event(event: Any, record: Record) -> ComparedEvent:
    """Return an event as it was emitted."""
    is_read = isinstance(event, Event)
    error, measures = ("", measures_of(event)) if is_read else (str(event), {})
    return ComparedEvent(record.type or "", key_text(record), record.topic, _facts(event), error, measures)


def _facts(event: object) -> dict[str, object]:
    return json_of(event) if isinstance(event, Event) else {}


class Absent(Enum):
    """Marks a side that has no value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT


class Change(NamedTuple):
    """One field that differs: its path, such as `lines[2].quantity`, and its values; ABSENT where there is none.

    An element added to or removed from a sequence has the sequence's own path.
    """

    path: str
    before: object
    after: object


def changes(before: object, after: object) -> tuple[Change, ...]:
    """Return what differs, in field order; empty for equal values.

    A side that is None or ABSENT as a whole, such as the state of an unknown key, has no fields.
    """
    return tuple(_changes("", before, after))


def _changes(path: str, before: object, after: object) -> Iterator[Change]:
    if before is after:
        return
    parts_before, parts_after = _parts(before), _parts(after)
    if parts_before is None and parts_after is None:
        if _is_sequence(before) and _is_sequence(after):
            yield from _sequence_changes(path, before, after)  # type: ignore[arg-type]  # both are sequences
        elif type(before) is not type(after) or before != after:
            yield Change(path, before, after)
        return
    if path and (parts_before is None or parts_after is None):
        yield Change(path, before, after)
        return
    old, new = parts_before or {}, parts_after or {}
    for name in {**old, **new}:
        yield from _changes(f"{path}.{name}" if path else name, old.get(name, ABSENT), new.get(name, ABSENT))


def _parts(value: object) -> Mapping[str, Any] | None:
    """Return a value's fields by name; None when it has none."""
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    return None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence | frozenset | set) and not isinstance(value, str | bytes)


def _sequence_changes(path: str, before: Sequence[object], after: Sequence[object]) -> Iterator[Change]:
    """Yield what was removed from and added to a sequence; all of it if only the order changed."""
    if before == after:
        return
    if not all(isinstance(each, Hashable) for each in (*before, *after)):
        yield Change(path, before, after)
        return
    old, new = Counter(before), Counter(after)
    removed, added = old - new, new - old
    yield from (Change(path, each, ABSENT) for each in removed.elements())
    yield from (Change(path, ABSENT, each) for each in added.elements())
    if not removed and not added:
        yield Change(path, before, after)
