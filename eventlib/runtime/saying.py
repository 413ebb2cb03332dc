"""From what a decider says to records: ids, sequence, cause, trace and place, all derived."""

from collections.abc import Callable, Sequence
from typing import Any

from eventlib.codec.port import Codec
from eventlib.decider import Decider
from eventlib.errors import ContractError
from eventlib.event import Event, Meta, contract_of, key_of
from eventlib.identity import child_traceparent, derived_id
from eventlib.log.port import Record
from eventlib.runtime.causes import Cause
from eventlib.times import from_ms
from eventlib.topic import Topic


class Speaker:
    """Makes the records of what one decider says.

    `names` gives the events of a turn other ids than those that derive from their places in it.
    """

    def __init__(self, decider: Decider[Any], service: str, topics: dict[str, Topic], codec: Codec) -> None:
        self.decider = decider
        self.source = f"{service}/{decider.name}"
        self.names: Names | None = None
        self._topics = topics
        self._codec = codec

    def turn(self, key: str, sequence: int, cause: Cause, at_ms: int) -> "Turn":
        """Return one turn to speak under a key that has said `sequence` events before."""
        return Turn(self, key, sequence, cause, at_ms)

    def record(self, turn: "Turn", ordinal: int, event: Event) -> Record:
        """Return the record of an event said. Raises: ContractError when it has no key, or is too large."""
        contract = contract_of(type(event))
        topic = self._topics[contract.topic.name]
        event_key = key_of(event)
        if event_key is None:
            raise ContractError(f"{contract.type} has no key: what a decider says has one")
        key = event_key.encode()
        value = self._codec.encode(event)
        if len(value) > topic.max_event_bytes:
            limit = topic.max_event_bytes
            raise ContractError(f"{contract.type} has {len(value)} bytes; topic {topic.name} takes {limit}")
        cause = turn.cause
        event_id = turn.id(ordinal)
        return Record(
            topic.name,
            topic.partition_of(key),
            -1,
            turn.at_ms,
            key,
            value,
            event_id,
            contract.type,
            self.source,
            turn.key,
            turn.sequence + ordinal + 1,
            cause.correlation_id,
            cause.caused_by,
            child_traceparent(cause.traceparent, event_id),
            cause.past,
        )


Names = Callable[["Turn", Sequence[Event]], list[str]]


class Turn:
    """A decider's turn to speak: one input's answers, with their ids derived once."""

    __slots__ = ("_ids", "_named", "at_ms", "cause", "key", "sequence", "speaker")

    def __init__(self, speaker: Speaker, key: str, sequence: int, cause: Cause, at_ms: int) -> None:
        self.speaker = speaker
        self.key = key
        self.sequence = sequence
        self.cause = cause
        self.at_ms = at_ms
        self._ids: list[str] = []
        self._named: Sequence[Event] | None = None

    def id(self, ordinal: int) -> str:
        """Return the id of the event that is said as number `ordinal` of this turn, from 0."""
        ids = self._ids
        while len(ids) <= ordinal:
            ids.append(self.derived_id(len(ids)))
        return ids[ordinal]

    def derived_id(self, ordinal: int) -> str:
        """Return the id that follows from an event's place in this turn."""
        return derived_id(self.cause.id, self.speaker.decider.name, self.key, ordinal)

    def meta(self, said: Sequence[Event], ordinal: int) -> Meta:
        """Return the Meta of an event that is being said, for an evolve that wants it; `said` are all of the turn."""
        self._name(said)
        cause, event_id = self.cause, self.id(ordinal)
        return Meta(
            event_id,
            "",
            0,
            -1,
            from_ms(self.at_ms),
            cause.correlation_id,
            cause.caused_by,
            self.speaker.source,
            self.key,
            self.sequence + ordinal + 1,
            child_traceparent(cause.traceparent, event_id),
        )

    def records(self, said: Sequence[Event]) -> list[Record]:
        """Return the records of all that was said in this turn. Raises: ContractError."""
        self._name(said)
        return [self.speaker.record(self, ordinal, event) for ordinal, event in enumerate(said)]

    def _name(self, said: Sequence[Event]) -> None:
        if self.speaker.names is not None and self._named is not said:
            self._named, self._ids = said, self.speaker.names(self, said)
