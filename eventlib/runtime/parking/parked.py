"""Parking: an input that cannot be handled waits, with all later inputs of its key; other keys continue."""

import re
from dataclasses import dataclass, replace
from datetime import timedelta

from eventlib.codec.base import Codec
from eventlib.log.base import Log, TopicPartition
from eventlib.model.evolution import wire_name, wire_name_of
from eventlib.model.record import Record, key_text
from eventlib.runtime.records import PARKED, SKIP, ParkedKey, parked_key, skip_key
from eventlib.runtime.state import TaskState
from eventlib.runtime.transaction import SkipInput
from eventlib.values import from_ms

_PREFIX = "parked_"
_DATED = f"{_PREFIX}dated_ms"
WAITS_BEHIND = "waits behind an earlier input of its key"
"""Why an input is parked that was not looked at."""
PAUSED = "paused by "
"""Why an input is parked whose key is paused, before who wants that and the reason."""
_CHUNK = 1_000
_PLACE = re.compile(r".+/\d+/\d+")


def is_own_failure(reason: str) -> bool:
    """Return whether an input is parked for its own sake: it waits neither behind another one nor for a pause to end."""
    return reason != WAITS_BEHIND and not reason.startswith(PAUSED)


def parked_copy(record: Record, parked: ParkedKey, parked_topic: str) -> Record:
    """Return the copy of an input for the parked topic: its bytes and attributes, where it came from, why it waits."""
    facts = {
        "topic": record.topic,
        "offset": str(record.offset),
        "decider": parked.decider,
        "reason": parked.reason,
        "since_ms": str(parked.since_ms),
    }
    headers = tuple((_PREFIX + name, text.encode()) for name, text in facts.items())
    return record.replace(topic=parked_topic, offset=-1, headers=record.headers + headers)


def dated(record: Record, at_ms: int) -> Record:
    """Return an input that is dated too far ahead of the clock as one of the time when it came; its own is noted."""
    return record.replace(timestamp_ms=at_ms, headers=(*record.headers, (_DATED, str(record.timestamp_ms).encode())))


def is_redated(parked: Record) -> bool:
    """Tell whether a parked input was dated too far ahead of the clock."""
    return any(name == _DATED for name, _ in parked.headers)


def why_ahead(dated_ms: int, at_ms: int) -> str:
    """Return why an input is parked that is dated too far ahead of the clock."""
    return (
        f"it is dated {from_ms(dated_ms):%Y-%m-%d %H:%M:%S} UTC, {timedelta(seconds=(dated_ms - at_ms) // 1_000)} ahead of the clock here: one of the two "
        "clocks is wrong (EVENTLIB_AHEAD_S is the most that is taken); a retry handles it, dated by when it came"
    )


def deadline_copy(name: str, key: str, partition: int, due_ms: int) -> Record:
    """Return a deadline as a record that can be parked; it has no topic, since it never was on one."""
    return Record("", partition, -1, due_ms, key.encode(), None, type=name)


def original_of(parked: Record) -> tuple[dict[str, str], Record]:
    """Return what was noted when a record was parked (decider, reason, ...), and the input as it stood on its topic."""
    facts = parked_facts(parked)
    own = tuple((name, value) for name, value in parked.headers if not name.startswith(_PREFIX))
    return facts, parked.replace(topic=facts["topic"], offset=int(facts["offset"]), headers=own)


def parked_facts(parked: Record) -> dict[str, str]:
    """Return where a parked record came from and why it waits: topic, offset, decider, reason, since_ms."""
    return {n.removeprefix(_PREFIX): v.decode() for n, v in parked.headers if n.startswith(_PREFIX)}


def is_waiting(parked: Record, decider: str, key: str) -> bool:
    """Tell whether a parked record belongs to a key of a decider."""
    return key_text(parked) == key and parked_facts(parked)["decider"] == decider


async def waiting_behind(parked: ParkedKey, place: TopicPartition, log: Log) -> list[Record]:
    """Return the parked records of a key, in order, from the partition of the parked topic in which they wait."""
    waiting = list[Record]()
    offset = parked.first
    while len(waiting) < parked.count and (records := await log.read(*place, offset, _CHUNK)):
        offset = records[-1].offset + 1
        waiting += [record for record in records if is_waiting(record, parked.decider, parked.key)]
    return waiting


class ParkedKeys:
    """Which keys of a task's deciders are parked, and how many inputs wait behind each."""

    def __init__(self, state: TaskState, codec: Codec) -> None:
        self._state = state
        self._codec = codec
        self._known = {(p.decider, p.key) for p in self.all()}
        self._nameless = {name for name in self._known if _PLACE.fullmatch(name[1])}
        self.any = bool(self._known)
        """Whether any key may be parked; asked for every input."""

    def all(self) -> list[ParkedKey]:
        """Return the keys that are parked, as committed."""
        return [self._read(record) for record in self._state.committed(PARKED)]

    def get(self, decider: str, key: str) -> ParkedKey | None:
        """Return a key's parking as this transaction sees it, or None."""
        if (decider, key) not in self._known:
            return None
        record = self._state.get(parked_key(decider, key))
        return None if record is None else self._read(record)

    def has_nameless(self, decider: str) -> bool:
        """Tell whether an input of a decider waits under its place, since its key is not known; see `damaged_input`."""
        return any(name == decider and self.get(name, key) is not None for name, key in self._nameless)

    def add(self, parked: ParkedKey) -> None:
        """Park a key, or one more input behind it."""
        before = self.get(parked.decider, parked.key)
        now = parked if before is None else replace(before, count=before.count + parked.count)
        self._known.add((parked.decider, parked.key))
        self.any = True
        if _PLACE.fullmatch(parked.key):
            self._nameless.add((parked.decider, parked.key))
        record = Record("", 0, -1, 0, b"", self._codec.encode(now), type=wire_name_of(ParkedKey), subject=now.key)
        self._state.put(parked_key(parked.decider, parked.key), record)

    def remove(self, decider: str, key: str) -> None:
        """Let a key go on."""
        self._state.put(parked_key(decider, key), None)

    def _read(self, record: Record) -> ParkedKey:
        return self._codec.decode(ParkedKey, record.value or b"")


@wire_name("SkippedInput")
@dataclass(frozen=True)
class SkippedInput:
    """An input that a task passes over when it comes, and why; with `once` it is forgotten after that."""

    event_id: str = ""
    why: str = ""
    once: bool = False


class SkippedInputs:
    """The inputs that a task is not to handle, by id."""

    def __init__(self, state: TaskState, codec: Codec) -> None:
        self._state = state
        self._codec = codec
        self._known = {self._read(record).event_id for record in state.committed(SKIP)}
        self.any = bool(self._known)
        """Whether there is any; asked for every input."""

    def why(self, event_id: str) -> str | None:
        """Return why an input is not to be handled; None when it is."""
        found = self._get(event_id)
        return None if found is None else found.why

    def add(self, skip: SkipInput) -> None:
        """Do not handle an input that comes later, or that waits."""
        self._known.add(skip.event_id)
        self.any = True
        content = SkippedInput(*skip[:2], skip.once)
        record = Record("", 0, -1, 0, b"", self._codec.encode(content), type=wire_name_of(SkippedInput))
        self._state.put(skip_key(skip.event_id), record)

    def passed(self, event_id: str) -> None:
        """Take note that an input came, and was passed over."""
        found = self._get(event_id)
        if found is not None and found.once:
            self._state.put(skip_key(event_id), None)

    def _get(self, event_id: str) -> SkippedInput | None:
        if event_id not in self._known:
            return None
        record = self._state.get(skip_key(event_id))
        return None if record is None else self._read(record)

    def _read(self, record: Record) -> SkippedInput:
        return self._codec.decode(SkippedInput, record.value or b"")
