"""What differs between a service and its rerun: what they say, what they know, and what is left open."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim, Record
from eventlib.model.decider import Decider
from eventlib.model.service import Service
from eventlib.operations.reprocessing.follower import Follower
from eventlib.operations.reprocessing.output_diff import OriginalOutput, event_in
from eventlib.operations.reprocessing.running import Rerun
from eventlib.replay.comparison import Change, changes
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import EFFECT, PARKED, STATE, ParkedKey, state_name
from eventlib.runtime.restore import restored_state
from eventlib.runtime.state import TaskState

Kind = Literal["missing", "extra", "other"]
"""What a rerun does with an event: it does not say it, says it in addition, or says something else in its place."""


@dataclass(frozen=True, slots=True)
class EventDifference:
    """An event that is not said alike: what the service said (`before`) and what the rerun did (`after`), by type.

    `changes` are the fields that differ between two of one type.
    """

    kind: Kind
    decider: str
    key: str
    id: str
    at_ms: int
    before: str
    after: str
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class StateDifference:
    """A key whose state differs. `why` is a sentence where a state cannot be read."""

    decider: str
    key: str
    changes: Sequence[Change]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What only the rerun leaves open: an effect that the service never asked for, or a parked key, and why."""

    decider: str
    key: str
    request: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeciderDifference:
    """How a decider does in the two: keys and how many states differ, events said alike and how many not."""

    decider: str
    keys: int
    states: int
    alike: int
    missing: int
    extra: int
    other: int

    @property
    def differs(self) -> bool:
        """Whether there is any difference."""
        return bool(self.states or self.missing or self.extra or self.other)


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between a service and its rerun; of events, states and what waits, the first ones.

    `requested` are effects that only the rerun has asked for, `parked` keys that only the rerun cannot handle.
    `not_yet` counts keys that the service has changed since the rerun has followed it.
    """

    deciders: Sequence[DeciderDifference]
    events: Sequence[EventDifference]
    states: Sequence[StateDifference]
    requested: Sequence[Waiting]
    parked: Sequence[Waiting]
    not_yet: int

    @property
    def is_none(self) -> bool:
        """Whether nothing differs."""
        return not (any(each.differs for each in self.deciders) or self.requested or self.parked)


async def difference(rerun: Rerun, limit: int) -> Difference:
    """Compare a rerun with its service, as far as it has come; `limit` is how many of each kind are told in full.

    Memory: the differences between events.
    """
    await rerun.sayings.catch_up()
    differ = rerun.sayings.differ(await rerun.times())
    comparing = _States(rerun.host.log, rerun.service, limit)
    for follower in rerun.followers.values():
        old = await seen_beside(rerun, follower)
        await comparing.compare(old, follower.task.state, follower.task.positions.at_ms)
        old.close()
    kinds = Counter((pair.decider, _kind(pair)) for pair in differ)
    deciders = [
        DeciderDifference(
            decider.name,
            comparing.keys[decider.name],
            comparing.differ[decider.name],
            rerun.sayings.alike[decider.name],
            *(kinds[decider.name, kind] for kind in ("missing", "extra", "other")),
        )
        for decider in rerun.service.deciders
    ]
    events = [await _told(rerun.host.log, pair) for pair in differ[:limit]]
    return Difference(deciders, events, comparing.first, comparing.requested, comparing.parked, comparing.not_yet)


async def seen_beside(rerun: Rerun, follower: Follower) -> TaskState:
    """Return what the service's task knows, in a local store of the rerun's own.

    No state is decoded: today's code may not be able to.
    """
    claim = Claim(rerun.service.name, follower.partition, follower.claim.epoch)
    return await restored_state(rerun.service, claim, rerun.host, {})


def side_by_side(old: TaskState, new: TaskState, prefix: str) -> Iterator[tuple[str, Record | None, Record | None]]:
    """Yield every key with a prefix, with what each of the two knows under it, in key order."""
    left, right = old.committed(prefix), new.committed(prefix)
    before, after = next(left, None), next(right, None)
    while before is not None or after is not None:
        key = min(each.key or b"" for each in (before, after) if each is not None)
        in_old, in_new = before is not None and before.key == key, after is not None and after.key == key
        yield key.decode(), before if in_old else None, after if in_new else None
        before = next(left, None) if in_old else before
        after = next(right, None) if in_new else after


class _States:
    """Compares what the two know, task by task."""

    def __init__(self, log: EventLog, service: Service, limit: int) -> None:
        self._log = log
        self._limit = limit
        self._deciders = {decider.name: decider for decider in service.deciders}
        self.keys = Counter[str]()
        self.differ = Counter[str]()
        self.first = list[StateDifference]()
        self.requested = list[Waiting]()
        self.parked = list[Waiting]()
        self.not_yet = 0

    async def compare(self, old: TaskState, new: TaskState, at_ms: int) -> None:
        """Compare what one task knows; `at_ms` is how far the rerun has come."""
        for key, before, after in side_by_side(old, new, STATE):
            decider = self._deciders.get(state_name(key)[0])
            if decider is None:
                continue  # one that the code does not have any more
            if before is not None and before.timestamp_ms > at_ms:
                self.not_yet += 1
            else:
                await self._compare_states(decider, state_name(key)[1], before, after)
        for prefix in (EFFECT, PARKED):
            for _, before, after in side_by_side(old, new, prefix):
                if after is not None and before is None:
                    self._note_waiting(after)

    async def _compare_states(
        self, decider: Decider[Any], key: str, before: Record | None, after: Record | None
    ) -> None:
        self.keys[decider.name] += 1
        values = [None if record is None else record.value or None for record in (before, after)]
        if values[0] == values[1]:
            return
        why, found = "", tuple[Change, ...]()
        try:
            states = [await self._state(decider, record) for record in (before, after)]
            if states[0] == states[1]:
                return
            found = changes(*states)
        except EventlibError as error:
            why = f"a state cannot be read: {error}"
        self.differ[decider.name] += 1
        if len(self.first) < self._limit:
            self.first.append(StateDifference(decider.name, key, found, why))

    async def _state(self, decider: Decider[Any], record: Record | None) -> object:
        if record is None or not record.value:
            return None
        codec = self._log.codec
        return await codec.known(lambda: entry_of(record, decider, codec).state)

    def _note_waiting(self, record: Record) -> None:
        if (record.key or b"").startswith(EFFECT.encode()) and not record.headers:
            decider = (record.source or "").partition("/")[2]
            self.requested.append(Waiting(decider, record.subject or "", record.type or ""))
        elif (record.key or b"").startswith(PARKED.encode()):
            parked = self._log.codec.decode(ParkedKey, record.value or b"")
            self.parked.append(Waiting(parked.decider, parked.key, reason=parked.reason))


def _kind(pair: OriginalOutput) -> Kind:
    if pair.old is None:
        return "extra"
    return "missing" if pair.new is None else "other"


async def _told(log: EventLog, pair: OriginalOutput) -> EventDifference:
    record = pair.either
    before, after = [None if each is None else await event_in(log, each) for each in pair]
    told = changes(before, after) if type(before) is type(after) or None in {before, after} else ()
    before_type, after_type = ("" if each is None else each.type or "" for each in pair)
    who = pair.decider, record.subject or "", record.event_id, record.timestamp_ms
    return EventDifference(_kind(pair), *who, before_type, after_type, told)
