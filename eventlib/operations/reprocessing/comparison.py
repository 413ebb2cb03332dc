"""Compares a service with its rerun: outputs, states, and pending or parked work."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim
from eventlib.model.decider import Decider
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.operations.reprocessing.follower import Follower
from eventlib.operations.reprocessing.output_diff import OriginalOutput, event_in
from eventlib.operations.reprocessing.running import Rerun
from eventlib.replay.comparison import Change, changes
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.records import EFFECT, PARKED, STATE, ParkedKey, changelog_key
from eventlib.runtime.restore import restored_state
from eventlib.runtime.state import TaskState

Kind = Literal["missing", "extra", "other"]
"""How a rerun changes an event: `missing`, `extra` (added), or `other` (changed)."""


@dataclass(frozen=True, slots=True)
class EventDifference:
    """A changed event: the type that the service emitted (`before`) and that of the rerun (`after`).

    `changes` are the fields that differ between two events of one type.
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
    """A key whose state differs. `why` is a sentence if a state cannot be read."""

    decider: str
    key: str
    changes: Sequence[Change]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Open only in the rerun: an effect that the service never requested, or a parked key, and why."""

    decider: str
    key: str
    request: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeciderDifference:
    """A decider's counts: keys and changed states; unchanged (`alike`), missing, added and changed events."""

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
    """What differs between a service and its rerun; of events, states and open work, the first ones.

    `requested` are effects that only the rerun requested, `parked` keys that only the rerun cannot handle. `not_yet`
    counts keys that the service has changed since the last transaction that the rerun followed.
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
    """Compare a rerun with its service, up to the rerun's position; `limit` is how many of each kind are listed.

    Memory: the differences between events.
    """
    await rerun.outputs.catch_up()
    changed = rerun.outputs.changed(await rerun.times())
    states = _StateComparison(rerun.log, rerun.service, limit)
    for follower in rerun.followers.values():
        old = await restored_original(rerun, follower)
        await states.compare(old, follower.task.state, follower.task.positions.at_ms)
        old.close()
    kinds = Counter((pair.decider, _kind(pair)) for pair in changed)
    deciders = [
        DeciderDifference(
            decider.name,
            states.keys[decider.name],
            states.changed[decider.name],
            rerun.outputs.unchanged[decider.name],
            *(kinds[decider.name, kind] for kind in ("missing", "extra", "other")),
        )
        for decider in rerun.service.deciders
    ]
    events = [await _difference_of(rerun.log, pair) for pair in changed[:limit]]
    return Difference(deciders, events, states.first, states.requested, states.parked, states.not_yet)


async def restored_original(rerun: Rerun, follower: Follower) -> TaskState:
    """Restore the state of the service's task into a local store of the rerun's own.

    No state is decoded: the current code may not be able to.
    """
    claim = Claim(rerun.service.name, follower.partition, follower.claim.epoch)
    return await restored_state(rerun.service, claim, rerun.context, {})


def side_by_side(old: TaskState, new: TaskState, prefix: str) -> Iterator[tuple[str, Record | None, Record | None]]:
    """Yield every key with a prefix, with its record on both sides, in key order."""
    left, right = old.committed(prefix), new.committed(prefix)
    before, after = next(left, None), next(right, None)
    while before is not None or after is not None:
        key = min(each.key or b"" for each in (before, after) if each is not None)
        in_old, in_new = before is not None and before.key == key, after is not None and after.key == key
        yield key.decode(), before if in_old else None, after if in_new else None
        before = next(left, None) if in_old else before
        after = next(right, None) if in_new else after


class _StateComparison:
    """Compares the states of both, task by task."""

    def __init__(self, log: EventLog, service: Service, limit: int) -> None:
        self._log = log
        self._limit = limit
        self._deciders = {decider.name: decider for decider in service.deciders}
        self.keys = Counter[str]()
        self.changed = Counter[str]()
        self.first = list[StateDifference]()
        self.requested = list[Waiting]()
        self.parked = list[Waiting]()
        self.not_yet = 0

    async def compare(self, old: TaskState, new: TaskState, at_ms: int) -> None:
        """Compare one task's states; `at_ms` is the time up to which the rerun followed it."""
        for key, before, after in side_by_side(old, new, STATE):
            decider = self._deciders.get(changelog_key(key).decider)
            if decider is None:
                continue  # the current code does not have it
            if before is not None and before.timestamp_ms > at_ms:
                self.not_yet += 1
            else:
                await self._compare_states(decider, changelog_key(key).key, before, after)
        for prefix in (EFFECT, PARKED):
            for _, before, after in side_by_side(old, new, prefix):
                if after is not None and before is None:
                    self._add_open(after)

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
        self.changed[decider.name] += 1
        if len(self.first) < self._limit:
            self.first.append(StateDifference(decider.name, key, found, why))

    async def _state(self, decider: Decider[Any], record: Record | None) -> object:
        if record is None or not record.value:
            return None
        codec = self._log.codec
        return await codec.known(lambda: entry_of(record, decider, codec).state)

    def _add_open(self, record: Record) -> None:
        kind = changelog_key(key_text(record)).kind
        if kind == "effect" and not record.headers:
            decider = (record.source or "").partition("/")[2]
            self.requested.append(Waiting(decider, record.subject or "", record.type or ""))
        elif kind == "parked":
            parked = self._log.codec.decode(ParkedKey, record.value or b"")
            self.parked.append(Waiting(parked.decider, parked.key, reason=parked.reason))


def _kind(pair: OriginalOutput) -> Kind:
    if pair.old is None:
        return "extra"
    return "missing" if pair.new is None else "other"


async def _difference_of(log: EventLog, pair: OriginalOutput) -> EventDifference:
    record = pair.either
    before, after = [None if each is None else await event_in(log, each) for each in pair]
    fields = changes(before, after) if type(before) is type(after) or None in {before, after} else ()
    before_type, after_type = ("" if each is None else each.type or "" for each in pair)
    who = pair.decider, record.subject or "", record.event_id, record.timestamp_ms
    return EventDifference(_kind(pair), *who, before_type, after_type, fields)
