"""A key of a decider as its task holds it in memory, and as the changelog holds it."""

import json
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, final

from eventlib.codec.base import Codec
from eventlib.log.record import Record
from eventlib.model.decider import FORGET, Decider
from eventlib.model.evolution import wire_name_of
from eventlib.runtime.bootstrap import Headers
from eventlib.runtime.records import state_key
from eventlib.values import to_ms

_HEADER = "task"
_MS = timedelta(milliseconds=1)
_NONE: Mapping[str, Any] = MappingProxyType({})
_FIELDS = ("state", "sequence", "changed_by", "correlation_id", "traceparent", "memory", "due")


class KeyMetadata:
    """What a task remembers about a key beside its state: immutable, and written out once for all who share it.

    `passed` holds the time in ms of each deadline that has passed; `answered` the hash of the body of each request
    that was handled, by id; `until` the time in ms to which that id is remembered, where that has an end.
    """

    __slots__ = ("_headers", "answered", "passed", "until")

    def __init__(
        self,
        passed: Mapping[str, int] = _NONE,
        answered: Mapping[str, str] = _NONE,
        until: Mapping[str, int] = _NONE,
    ) -> None:
        self.passed = passed
        self.answered = answered
        self.until = until
        self._headers: Headers | None = None

    @property
    def headers(self) -> Headers:
        """It as headers of a changelog record; written when a transaction ends, since a key may get many requests in one."""
        if self._headers is None:
            parts = ("passed", self.passed), ("answered", self.answered), ("until", self.until)
            kept = {name: dict(part) for name, part in parts if part}
            self._headers = ((_HEADER, json.dumps(kept).encode()),) if kept else ()
        return self._headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyMetadata):
            return False
        return (self.passed, self.answered, self.until) == (other.passed, other.answered, other.until)

    def __hash__(self) -> int:
        return hash(self.headers)

    def answer_to(self, request_id: str, at_ms: int) -> str | None:
        """Return the hash of a request's body, if it was handled before and that is remembered at a time."""
        if self.until and self.until.get(request_id, at_ms + 1) <= at_ms:
            return None
        return self.answered.get(request_id)

    def with_answered(self, request_id: str, body_hash: str, at_ms: int, once_for: timedelta | None) -> "KeyMetadata":
        """Return it with one more request answered at a time, remembered for so long; what is older goes."""
        kept = self._without(at_ms) if self.until else self
        until = kept.until if once_for is None else {**kept.until, request_id: at_ms + once_for // _MS}
        return KeyMetadata(kept.passed, {**kept.answered, request_id: body_hash}, until)

    def with_passed(self, deadline: str, at_ms: int) -> "KeyMetadata":
        """Return it with a deadline passed; with a key goes what is remembered for a time, since that has passed too."""
        kept = self._without(at_ms) if self.until and deadline == FORGET else self
        return KeyMetadata({**kept.passed, deadline: at_ms}, kept.answered, kept.until)

    def _without(self, at_ms: int) -> "KeyMetadata":
        until = {request_id: until_ms for request_id, until_ms in self.until.items() if until_ms > at_ms}
        gone = self.until.keys() - until.keys()
        answered = {request_id: known for request_id, known in self.answered.items() if request_id not in gone}
        return KeyMetadata(self.passed, answered, until)


NO_MEMORY = KeyMetadata()


@final
class KeyedState:
    """A key's state, and what the task remembers about it.

    `state` is None for a key that was never seen or is forgotten. `sequence` counts the events emitted, `changed_by` is
    the event that last changed the key, `correlation_id` and `traceparent` those of that event. `due` follows from
    the state: when each deadline that has not passed falls due, in ms.
    """

    __slots__ = _FIELDS

    def __init__(  # noqa: PLR0913, PLR0917  made by the thousand, as Record is
        self,
        state: Any = None,
        sequence: int = 0,
        changed_by: str | None = None,
        correlation_id: str | None = None,
        traceparent: str | None = None,
        memory: KeyMetadata = NO_MEMORY,
        due: Mapping[str, int] = _NONE,
    ) -> None:
        self.state = state
        self.sequence = sequence
        self.changed_by = changed_by
        self.correlation_id = correlation_id
        self.traceparent = traceparent
        self.memory = memory
        self.due = due

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyedState) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.sequence, self.changed_by, self.memory))

    def __repr__(self) -> str:
        return f"KeyedState{self._values()!r}"

    def _values(self) -> tuple[Any, ...]:
        attributes = self.sequence, self.changed_by, self.correlation_id, self.traceparent
        return self.state, *attributes, self.memory, self.due

    def replace(self, **changes: Any) -> "KeyedState":
        """Return the entry with other values of some fields. Raises: TypeError for a field that it has not."""
        return KeyedState(**(dict(zip(_FIELDS, self._values(), strict=True)) | changes))

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left to remember: the changelog has a tombstone, and the key begins again."""
        return self.state is None and not self.memory.answered

    def record(self, name: tuple[str, str], place: "KeyLocation", source: str, codec: Codec) -> Record:
        """Return the entry as a changelog record; a tombstone when nothing is left to remember."""
        value = b"" if self.state is None else codec.encode(self.state)
        return Record(
            place.topic,
            place.partition,
            -1,
            place.at_ms,
            state_key(*name).encode(),
            None if self.is_gone else value,
            None,
            None if self.state is None else wire_name_of(type(self.state)),
            source,
            name[1],
            self.sequence,
            self.correlation_id,
            self.changed_by,
            self.traceparent,
            self.memory.headers,
        )


class KeyLocation(NamedTuple):
    """Where and when a transaction's changelog records are written."""

    topic: str
    partition: int
    at_ms: int


def entry_of(record: Record, decider: Decider[Any], codec: Codec) -> KeyedState:
    """Read an entry back from its changelog record. Raises: UnknownSchema, ContractError."""
    state = codec.decode(decider.state, record.value) if record.value else None
    memory = _memory_of(record)
    return KeyedState(
        state,
        record.sequence or 0,
        record.causation_id,
        record.correlation_id,
        record.traceparent,
        memory,
        due_times(decider, state, memory),
    )


def remembered_bytes(record: Record) -> int:
    """Return how many bytes of a changelog record are what its key remembers beside its state."""
    return sum(len(value) for name, value in record.headers if name == _HEADER)


def due_times(decider: Decider[Any], state: Any, memory: KeyMetadata) -> Mapping[str, int]:
    """Return when each deadline of a state falls due (ms); one that has passed stays passed."""
    if state is None or not decider.has_deadlines:
        return _NONE
    passed = memory.passed
    due = {name: at_ms for name, at in decider.due(state).items() if passed.get(name) != (at_ms := to_ms(at))}
    if memory.until and FORGET in due:
        due[FORGET] = max(due[FORGET], *memory.until.values())
    return due


def _memory_of(record: Record) -> KeyMetadata:
    for name, value in record.headers:
        if name == _HEADER:
            return KeyMetadata(**json.loads(value))
    return NO_MEMORY
