"""From what a decider says to records: ids, sequence, cause, trace and place, all derived."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlib.codec.port import Codec
from eventlib.decider import Decider
from eventlib.errors import ContractError
from eventlib.event import Event, Meta, contract_of, key_of
from eventlib.identity import child_traceparent, derived_id
from eventlib.log.port import Record
from eventlib.times import from_ms
from eventlib.topic import Topic


class Cause(NamedTuple):
    """The input that makes a decider say something.

    `id` is what the ids of the events said derive from; `caused_by` is the event on the log that they name as their
    cause. They differ for a deadline, which is no event: its cause is the one that last changed the key.
    """

    id: str
    caused_by: str
    correlation_id: str
    traceparent: str | None


class Speaker:
    """Makes the records of what one decider says under one key."""

    def __init__(self, decider: Decider[Any], service: str, topics: dict[str, Topic], codec: Codec) -> None:
        self.decider = decider
        self.source = f"{service}/{decider.name}"
        self._topics = topics
        self._codec = codec

    def records(self, key: str, sequence: int, cause: Cause, said: Sequence[Event], at_ms: int) -> list[Record]:
        """Return the records of events said, `sequence` being how many the key has said before.

        Raises: ContractError for an event without a key, or over its topic's largest.
        """
        return [
            self._record(
                event, key, sequence + ordinal + 1, cause, derived_id(cause.id, self.decider.name, key, ordinal), at_ms
            )
            for ordinal, event in enumerate(said)
        ]

    def _record(self, event: Event, key: str, sequence: int, cause: Cause, event_id: str, at_ms: int) -> Record:
        contract = contract_of(type(event))
        topic = self._topics[contract.topic.name]
        event_key = key_of(event)
        if event_key is None:
            raise ContractError(f"{contract.type} has no key: what a decider says has one")
        key_bytes = event_key.encode()
        value = self._codec.encode(event)
        if len(value) > topic.max_event_bytes:
            raise ContractError(
                f"{contract.type} has {len(value)} bytes; topic {topic.name} takes {topic.max_event_bytes}"
            )
        return Record(
            topic.name,
            topic.partition_of(key_bytes),
            -1,
            at_ms,
            key_bytes,
            value,
            event_id,
            contract.type,
            self.source,
            key,
            sequence,
            cause.correlation_id,
            cause.caused_by,
            child_traceparent(cause.traceparent, event_id),
        )

    def meta(self, key: str, sequence: int, cause: Cause, ordinal: int, at_ms: int) -> Meta:
        """Return the Meta of an event that is being said, for an evolve that wants it."""
        event_id = derived_id(cause.id, self.decider.name, key, ordinal)
        return Meta(
            id=event_id,
            recorded_at=from_ms(at_ms),
            correlation_id=cause.correlation_id,
            causation_id=cause.caused_by,
            source=self.source,
            subject=key,
            sequence=sequence,
            traceparent=child_traceparent(cause.traceparent, event_id),
        )
