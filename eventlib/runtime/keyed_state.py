"""A key of a decider as its task holds it in memory, and as the changelog holds it."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, final

from eventlib.codec.base import Codec
from eventlib.model.decider import FORGET, Decider
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.runtime.bootstrap import Headers
from eventlib.runtime.records import request_key, state_key
from eventlib.values import to_ms

KEPT_WITH_KEY = 8
"""How many of its newest requests a key remembers beside its state; each older one has an entry of its own."""

REMEMBERED_FOR = timedelta(days=7)
"""How long a request that has an entry of its own is remembered, unless its event declares another time."""

_HEADER, _MOVED = "task", "request"
_MS = timedelta(milliseconds=1)
_NONE: Mapping[str, Any] = MappingProxyType({})
_FIELDS = ("state", "sequence", "changed_by", "correlation_id", "traceparent", "memory", "due")


class MovedRequest(NamedTuple):
    """A request that a key has answered, and that has an entry of its own: the `number`-th one, from 0, of its key."""

    id: str
    body_hash: str
    until_ms: int
    number: int


class KeyMetadata:
    """The metadata of a key beside its state: immutable, and encoded once for all that share it.

    `passed` holds the time in ms of each deadline that has passed; `answered` the hash of the body of each of the newest
    requests that were handled, by id; `until` the time in ms to which that id is remembered, where its event declares
    one. `moved` has, where requests got entries of their own, how many did (`count`), and the latest declared time in ms
    to which one of these is remembered (`until`). Two are equal whatever was moved: that follows from what was answered.
    """

    __slots__ = ("_headers", "answered", "moved", "passed", "until")

    def __init__(
        self,
        passed: Mapping[str, int] = _NONE,
        answered: Mapping[str, str] = _NONE,
        until: Mapping[str, int] = _NONE,
        moved: Mapping[str, int] = _NONE,
    ) -> None:
        self.passed = passed
        self.answered = answered
        self.until = until
        self.moved = moved
        self._headers: Headers | None = None

    @property
    def headers(self) -> Headers:
        """It as headers of a changelog record; written when a transaction ends, since a key may get many requests in one."""
        if self._headers is None:
            parts = ("passed", self.passed), ("answered", self.answered), ("until", self.until), ("moved", self.moved)
            kept = {name: dict(part) for name, part in parts if part}
            self._headers = ((_HEADER, json.dumps(kept).encode()),) if kept else ()
        return self._headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyMetadata):
            return False
        return (self.passed, self.answered, self.until) == (other.passed, other.answered, other.until)

    def __hash__(self) -> int:
        return hash((*self.passed, *self.answered))

    @property
    def answered_count(self) -> int:
        """How many requests the key has answered, but for those that were remembered for a declared time that is over."""
        return len(self.answered) + self.moved.get("count", 0)

    @property
    def held_until_ms(self) -> int:
        """The latest declared time (ms) to which one of its requests is remembered; 0 if none declares one."""
        return max(self.moved.get("until", 0), *self.until.values(), 0)

    def answer_to(self, request_id: str, at_ms: int) -> str | None:
        """Return the hash of a request's body, if it is one of the newest that were handled and remembered at a time."""
        if self.until and self.until.get(request_id, at_ms + 1) <= at_ms:
            return None
        return self.answered.get(request_id)

    def with_answered(self, request_id: str, body_hash: str, at_ms: int, once_for: timedelta | None) -> "KeyMetadata":
        """Return it with one more request answered at a time, remembered for so long; what is older goes."""
        kept = self._without(at_ms) if self.until or self.moved else self
        until = kept.until if once_for is None else {**kept.until, request_id: at_ms + once_for // _MS}
        return KeyMetadata(kept.passed, {**kept.answered, request_id: body_hash}, until, kept.moved)

    def bounded(self, at_ms: int) -> tuple["KeyMetadata", Sequence[MovedRequest]]:
        """Return it with the newest requests only, and the older ones, each of which is to get an entry of its own."""
        over = len(self.answered) - KEPT_WITH_KEY
        if over <= 0:
            return self, ()
        first, default_ms, known = self.moved.get("count", 0), at_ms + REMEMBERED_FOR // _MS, [*self.answered.items()]
        moved = [
            MovedRequest(request_id, body_hash, self.until.get(request_id, default_ms), first + number)
            for number, (request_id, body_hash) in enumerate(known[:over])
        ]
        until = {**self.until}
        held_ms = max(self.moved.get("until", 0), *(until.pop(each.id, 0) for each in moved))
        parts = ("count", first + over), ("until", held_ms)
        return KeyMetadata(self.passed, dict(known[over:]), until, {name: n for name, n in parts if n}), moved

    def with_passed(self, deadline: str, at_ms: int) -> "KeyMetadata":
        """Return it with a deadline passed; with a key goes what is remembered for a time, since that has passed too."""
        kept = self._without(at_ms) if self.until and deadline == FORGET else self
        return KeyMetadata({**kept.passed, deadline: at_ms}, kept.answered, kept.until, kept.moved)

    def _without(self, at_ms: int) -> "KeyMetadata":
        until = {request_id: until_ms for request_id, until_ms in self.until.items() if until_ms > at_ms}
        gone = self.until.keys() - until.keys()
        answered = {request_id: known for request_id, known in self.answered.items() if request_id not in gone}
        moved = self.moved
        if 0 < moved.get("until", 0) <= at_ms:
            moved = {"count": moved["count"]}
        return KeyMetadata(self.passed, answered, until, moved)


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
        state, memory, value, kind = self.state, self.memory, None, None
        if state is not None:
            value, kind = codec.encode(state), wire_name_of(state.__class__)
        elif memory.answered:
            value = b""
        return Record(
            place.topic,
            place.partition,
            -1,
            place.at_ms,
            state_key(*name).encode(),
            value,
            None,
            kind,
            source,
            name[1],
            self.sequence,
            self.correlation_id,
            self.changed_by,
            self.traceparent,
            () if memory is NO_MEMORY else memory.headers,
        )


class KeyLocation(NamedTuple):
    """Where and when a transaction's changelog records are written."""

    topic: str
    partition: int
    at_ms: int


def entry_of(record: Record, decider: Decider[Any], codec: Codec) -> KeyedState:
    """Read an entry back from its changelog record. Raises: UnknownSchema, ContractError."""
    state = codec.decode(decider.state, record.value) if record.value else None
    memory = memory_of(record)
    return KeyedState(
        state,
        record.sequence or 0,
        record.causation_id,
        record.correlation_id,
        record.traceparent,
        memory,
        due_times(decider, state, memory),
    )


def memory_of(record: Record) -> KeyMetadata:
    """Read what a changelog record has about its key beside the state."""
    for name, value in record.headers:
        if name == _HEADER:
            return KeyMetadata(**json.loads(value))
    return NO_MEMORY


def moved_record(decider: str, key: str, moved: MovedRequest, at_ms: int) -> Record:
    """Return the changelog record of a request that was moved at a time; its place is not set."""
    kept = json.dumps([moved.body_hash, moved.until_ms, moved.number]).encode()
    return Record("", 0, -1, at_ms, request_key(decider, key, moved.id).encode(), b"", headers=((_MOVED, kept),))


def moved_of(record: Record, request_id: str) -> MovedRequest:
    """Read a request back from its changelog record."""
    return MovedRequest(request_id, *json.loads(record.headers[0][1]))


def due_times(decider: Decider[Any], state: Any, memory: KeyMetadata) -> Mapping[str, int]:
    """Return when each deadline of a state falls due (ms); one that has passed stays passed."""
    if state is None or not (decider.deadlines or decider.forgotten_at):
        return _NONE
    passed, due = memory.passed, dict[str, int]()
    for name, at in decider.due(state).items():
        at_ms = to_ms(at)
        if passed.get(name) != at_ms:
            due[name] = at_ms
    if (memory.until or memory.moved) and FORGET in due:
        due[FORGET] = max(due[FORGET], memory.held_until_ms)
    return due
