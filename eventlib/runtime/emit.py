"""Builds output records from what a decider emits: ids, sequence, cause, trace and partition are all derived."""

from collections.abc import Callable, Sequence
from typing import Any, final

from eventlib.codec.base import Codec
from eventlib.errors import ContractError
from eventlib.log.rules import refuse_large, stored_bytes
from eventlib.model.decider import Decider
from eventlib.model.event import NO_HEADERS, Event, Meta, contract_of, key_of, of_fields, unwritable_key
from eventlib.model.identity import child_traceparent, deadline_id, derived_id
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.runtime.bootstrap import Headers, past_of
from eventlib.runtime.keyed_state import KeyedState, due_times
from eventlib.values import from_ms


@final
class Cause:
    """The input that a decider answers.

    The ids of the events emitted derive from `id`; `caused_by` is the event on the log that they name as their
    cause. The two differ for a deadline, whose cause is the event that last changed the key, and for an external
    record, whose id its source may use twice. `past` marks what follows from a service's past.
    """

    __slots__ = ("caused_by", "correlation_id", "id", "past", "traceparent")

    def __init__(
        self,
        id: str,  # noqa: A002  the field has this name
        caused_by: str,
        correlation_id: str,
        traceparent: str | None,
        past: Headers = (),
    ) -> None:
        self.id = id
        self.caused_by = caused_by
        self.correlation_id = correlation_id
        self.traceparent = traceparent
        self.past = past


def cause_of_input(record: Record, running: KeyedState | None, *, external: bool) -> Cause:
    """Return a record as a cause; a request about a `running` saga belongs to that saga, and its trace, not to its own."""
    event_id, traceparent = record.id or record.event_id, record.traceparent
    correlation_id = record.correlation_id or event_id
    if running is not None and running.correlation_id is not None:
        correlation_id, traceparent = running.correlation_id, running.traceparent or traceparent
    cause_id = f"{record.topic}/{record.partition}/{record.offset}" if external else event_id
    return Cause(cause_id, event_id, correlation_id, traceparent, past_of(record.headers) if record.headers else ())


def cause_of_deadline(
    name: tuple[str, str], deadline: str, due_ms: int, entry: KeyedState, past: Headers = ()
) -> Cause:
    """Return the passing of a deadline as a cause; `name` is the decider's and the key."""
    cause_id = deadline_id(*name, deadline, due_ms)
    return Cause(cause_id, entry.changed_by or cause_id, entry.correlation_id or cause_id, entry.traceparent, past)


def meta_of_deadline(cause: Cause, at_ms: int, source: str, key: str) -> Meta:
    """Return what the handler of a deadline that passes gets as its Meta."""
    return Meta(
        id=cause.id,
        recorded_at=from_ms(at_ms),
        correlation_id=cause.correlation_id,
        causation_id=cause.caused_by,
        source=source,
        subject=key,
    )


def entry_after(
    entry: KeyedState, decider: Decider[Any], cause: Cause, state: Any, emitted: Sequence[Record]
) -> KeyedState:
    """Return a key's entry after a cause: with a new state, and with all that was emitted about it."""
    last = emitted[-1] if emitted else None
    return KeyedState(
        state,
        entry.sequence + len(emitted),
        cause.caused_by if last is None else last.id,
        cause.correlation_id,
        cause.traceparent if last is None else last.traceparent,
        entry.memory,
        due_times(decider, state, entry.memory),
    )


@final
class _Target:
    """Where the events of one type go, looked up once."""

    __slots__ = ("key_field", "topic", "type")

    def __init__(self, type: str, key_field: str, topic: Topic) -> None:  # noqa: A002  the field has this name
        self.type = type
        self.key_field = key_field
        self.topic = topic


class RecordBuilder:
    """Builds the records of what one decider emits.

    `names` gives the events of an emission other ids than those that derive from their places in it. `checks_sizes`
    looks at the whole record, as the log does with each: so only once the log has refused one. `copies` says whether some
    of its events are held in a compacted topic, too.
    """

    def __init__(self, decider: Decider[Any], service: str, topics: dict[str, Topic], codec: Codec) -> None:
        self.decider = decider
        self.source = f"{service}/{decider.name}"
        self.names: Names | None = None
        self.checks_sizes = False
        self.refused: tuple[int, str] | None = None
        self.copies = any(contract_of(each).topic.latest for each in decider.emits)
        self._topics = topics
        self._codec = codec
        self._targets: dict[type[Event], _Target] = {}

    def emission(self, key: str, sequence: int, cause: Cause, at_ms: int) -> "Emission":
        """Return the emission under a key that has emitted `sequence` events before."""
        return Emission(self, key, sequence, cause, at_ms)

    def records(self, emission: "Emission", emitted: Sequence[Event], ids: Sequence[str]) -> list[Record]:
        """Return the records of events emitted. Raises: ContractError when one has no key, or is too large."""
        found, cause, sequence = list[Record](), emission.cause, emission.sequence
        for event, event_id in zip(emitted, ids, strict=False):
            target = self._targets.get(type(event)) or self._target(type(event))
            text, topic = event.__dict__.get(target.key_field), target.topic
            if not text or text.__class__ is not str:
                text = _key_of(event)
            try:
                key = text.encode()
            except UnicodeEncodeError as error:
                raise unwritable_key(event, text) from error
            value = self._codec.encode(event)
            sequence += 1
            record = Record(
                topic.name,
                topic.partition_of(key),
                -1,
                emission.at_ms,
                key,
                value,
                event_id,
                target.type,
                self.source,
                emission.key,
                sequence,
                cause.correlation_id,
                cause.caused_by,
                child_traceparent(cause.traceparent, event_id),
                cause.past,
            )
            if self.checks_sizes or len(value) > topic.max_event_bytes:
                refuse_large(record, topic)
            if self.refused is not None and stored_bytes(record) >= self.refused[0]:
                raise ContractError(f"{target.type} has {stored_bytes(record):,} bytes: {self.refused[1]}")
            found.append(record)
        return found

    def _target(self, event_type: type[Event]) -> _Target:
        contract = contract_of(event_type)
        target = _Target(contract.type, contract.key or "", self._topics[contract.topic.name])
        self._targets[event_type] = target
        return target


def _key_of(event: Event) -> str:
    key = key_of(event)
    if key is None:
        raise ContractError(f"{contract_of(type(event)).type} has no key: what a decider emits has one")
    return key


Names = Callable[["Emission", Sequence[Event]], list[str]]


class Emission:
    """One emission: a decider's answers to one input, with their ids derived once."""

    __slots__ = ("_ids", "_named", "at_ms", "builder", "cause", "key", "sequence")

    def __init__(self, builder: RecordBuilder, key: str, sequence: int, cause: Cause, at_ms: int) -> None:
        self.builder = builder
        self.key = key
        self.sequence = sequence
        self.cause = cause
        self.at_ms = at_ms
        self._ids: list[str] = []
        self._named: Sequence[Event] | None = None

    def id(self, ordinal: int) -> str:
        """Return the id of the event that has number `ordinal` in this emission, from 0."""
        ids = self._ids
        while len(ids) <= ordinal:
            ids.append(derived_id(self.cause.id, self.builder.decider.name, self.key, len(ids)))
        return ids[ordinal]

    def derived_id(self, ordinal: int) -> str:
        """Return the id that follows from an event's place in this emission."""
        return derived_id(self.cause.id, self.builder.decider.name, self.key, ordinal)

    def meta(self, emitted: Sequence[Event], ordinal: int) -> Meta:
        """Return the Meta of an event that is being emitted, for an evolve that wants it; `emitted` is the whole emission."""
        if self.builder.names is not None:
            self._name(emitted)
        cause, event_id = self.cause, self.id(ordinal)
        values = (
            event_id,
            "",
            0,
            -1,
            from_ms(self.at_ms),
            cause.correlation_id,
            cause.caused_by,
            self.builder.source,
            self.key,
            self.sequence + ordinal + 1,
            child_traceparent(cause.traceparent, event_id),
            NO_HEADERS,
        )
        return of_fields(Meta, values)

    def records(self, emitted: Sequence[Event]) -> list[Record]:
        """Return the records of this emission. Raises: ContractError."""
        if self.builder.names is not None:
            self._name(emitted)
        if emitted:
            self.id(len(emitted) - 1)
        return self.builder.records(self, emitted, self._ids)

    def _name(self, emitted: Sequence[Event]) -> None:
        if self.builder.names is not None and self._named is not emitted:
            self._named, self._ids = emitted, self.builder.names(self, emitted)
