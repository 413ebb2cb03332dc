"""One saga as it went: its events in order with their causes, as a timeline and as a tree. Pure functions on records.

What turned a saga around shows in its types: an event that is a failure means that something was refused or called
off. What follows from a failure, and what reverses a step, is compensation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from eventlib.errors import UndecodableRecord
from eventlib.ground.arguments import check
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.record import Record, key_text
from eventlib.values import from_ms

Role = Literal["step", "failure", "compensation"]
Decoded = tuple[Record, Event | UndecodableRecord | None]


@dataclass(frozen=True, slots=True)
class SagaEvent:
    """An event's part in its saga.

    `event` is None when it cannot be decoded; `error` says why. `after_ms` counts from the saga's first event.
    `cause` is the event of this saga that led to it; None for what came from outside. `number` is its place, from 1.
    """

    record: Record
    event: Event | None
    error: str | None
    after_ms: int
    cause: Record | None
    role: Role
    ends: bool
    number: int = 0

    @property
    def type(self) -> str:
        """The event's type, also of one that cannot be decoded."""
        return self.record.type or (type(self.event).__name__ if self.event else "(no type)")

    @property
    def service(self) -> str:
        """The service that emitted it; `outside` for what no service has emitted."""
        return (self.record.source or "outside").partition("/")[0]

    @property
    def facts(self) -> dict[str, object]:
        """The event's fields."""
        return {} if self.event is None else dict(self.event)


@dataclass(frozen=True)
class Saga:
    """All events of one saga, causes before effects.

    `ended` is None when no event of the choreography ends a saga under this kind of key (a product's, for instance).
    """

    key: str
    events: tuple[SagaEvent, ...]
    ended: bool | None
    children: Mapping[str, Sequence[SagaEvent]]

    @property
    def roots(self) -> list[SagaEvent]:
        """The events that nothing on the log has caused."""
        return [event for event in self.events if event.cause is None]

    @property
    def ending(self) -> SagaEvent | None:
        """The event that ended the saga."""
        return next((event for event in reversed(self.events) if event.ends), None)

    @property
    def started_at(self) -> datetime:
        """When the first event was recorded (UTC)."""
        return from_ms(self.events[0].record.timestamp_ms)

    @property
    def duration_ms(self) -> int:
        """From the first event to the ending, or to the last event so far."""
        return (self.ending or self.events[-1]).after_ms

    def news(self) -> list[dict[str, object]]:
        """Return what each event adds to the saga: its fields, without the key and what never changes in this saga.

        A field that never changes is listed with the first event that has it.
        """
        values: dict[str, object] = {}
        varying = set[str]()
        for event in self.events:
            varying |= {name for name, value in event.facts.items() if values.setdefault(name, value) != value}
        emitted = set[str]()
        found = list[dict[str, object]]()
        for event in self.events:
            new = {
                name: v for name, v in event.facts.items() if v != self.key and (name in varying or name not in emitted)
            }
            emitted |= new.keys()
            found.append(new)
        return found

    def caused_by(self, event: SagaEvent) -> Sequence[SagaEvent]:
        """Return what an event led to, in order."""
        return self.children.get(event.record.event_id, ())


def saga_of(key: str, decoded: Iterable[Decoded], choreography: Choreography) -> Saga:
    """Return the saga that these records make up; each has to be there once. Their order does not matter."""
    known = list(decoded)
    for pair in known[:1]:
        check(pair, tuple, "decoded[0]", "give what `await log.decode_many(records)` returns")
    by_id = {record.event_id: record for record, _ in known}
    known.sort(key=lambda pair: _place(pair[0], by_id))
    start_ms = known[0][0].timestamp_ms if known else 0
    roles = _Roles(choreography)
    events = list[SagaEvent]()
    for record, read in known:
        event = read if isinstance(read, Event) else None
        cause = by_id.get(record.causation_id or "")
        ends = event is not None and contract_of(type(event)).final and key_text(record) == key
        role = roles.of(record, event, cause)
        after_ms = record.timestamp_ms - start_ms
        events.append(SagaEvent(record, event, _error(record, read), after_ms, cause, role, ends, len(events) + 1))
    children: dict[str, list[SagaEvent]] = {}
    for each in events:
        if each.cause is not None:
            children.setdefault(each.cause.event_id, []).append(each)
    ended = any(each.ends for each in events) if _can_end(key, events, choreography) else None
    return Saga(key, tuple(events), ended, children)


class _Roles:
    """Tells compensation from progress, in one pass over a saga in order."""

    def __init__(self, choreography: Choreography) -> None:
        self._handled = {d.name: {contract_of(e).type for e in d.handlers} for d in choreography.deciders}
        self._answers = {
            (contract_of(request).type, contract_of(answer).type)
            for decider in choreography.deciders
            for request, effect in decider.effects.items()
            for answer in effect.emits
        }
        self._failing = choreography.failures
        self._turned: set[str] = set()
        self._failures: set[tuple[str, str]] = set()

    def of(self, record: Record, event: Event | None, cause: Record | None) -> Role:
        fails = type(event) in self._failing
        reverses = event is not None and not fails and bool(contract_of(type(event)).reverses)
        if event is not None and contract_of(type(event)).final and not fails and not reverses:
            return "step"
        role: Role = "step"
        follows = cause is not None and (cause.event_id in self._turned or self._follows_failure(record, cause))
        if follows or (reverses and not fails):
            role = "compensation"
        elif fails:
            role = "failure"
        if role != "step":
            self._turned.add(record.event_id)
        if fails:
            self._failures.add((record.type or "", key_text(record)))
        return role

    def _follows_failure(self, record: Record, cause: Record) -> bool:
        """Tell whether the decider that emitted this knew of a failure, whatever its direct cause was.

        What its effects answer does not count: the outside world was asked before.
        """
        if (cause.type, record.type) in self._answers:
            return False
        handled = self._handled.get((record.source or "").partition("/")[2], set())
        return any(type_ in handled and key == record.subject for type_, key in self._failures)


def _place(record: Record, by_id: Mapping[str, Record]) -> tuple[int, int, str, int, int]:
    """Return what a saga is sorted by: time, and within a millisecond causes before their effects."""
    depth, at, seen = 0, record, {record.event_id}
    while (cause := by_id.get(at.causation_id or "")) is not None and cause.event_id not in seen:
        if cause.timestamp_ms < record.timestamp_ms:
            break
        seen.add(cause.event_id)
        depth, at = depth + 1, cause
    return record.timestamp_ms, depth, record.topic, record.partition, record.offset


def _can_end(key: str, events: Iterable[SagaEvent], choreography: Choreography) -> bool:
    contracts = {contract_of(event).type: contract_of(event) for event in choreography.events}
    types = {event.type for event in events if key_text(event.record) == key}
    fields = {contracts[name].key for name in types & contracts.keys()}
    return any(contract.final and contract.key in fields for contract in contracts.values())


def _error(record: Record, read: Event | UndecodableRecord | None) -> str | None:
    if isinstance(read, UndecodableRecord):
        return read.reason
    return None if read is not None else f"{record.type} is not an event of this choreography"
