"""The original outputs of a service by task and time, and the decider that repeats them."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.log.base import Record, TopicPartition
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta, key_of
from eventlib.model.identity import derived_id
from eventlib.model.service import Service
from eventlib.replay.journal_steps import Done, Input

_CHUNK = 500
_KEPT_MS = 60_000
"""How long what nobody asked for is kept, by the log's own time: tasks do not go exactly side by side."""

Moment = tuple[int, int]
"""A task, and the time of one of its transactions (ms)."""


class ReplayingDecider:
    """What was said at one time. An id stands there twice where its cause has come twice."""

    def __init__(self) -> None:
        self.count = 0
        self._by_id: dict[str, list[Record]] = {}

    def add(self, record: Record) -> None:
        """Take note of an event."""
        self.count += 1
        self._by_id.setdefault(record.event_id, []).append(record)

    @property
    def all(self) -> list[Record]:
        """The events that were not taken."""
        return [record for found in self._by_id.values() for record in found]

    def get(self, event_id: str) -> Record | None:
        """Return the event with an id, the oldest one that was not taken."""
        found = self._by_id.get(event_id)
        return found[0] if found else None

    def take(self, event_id: str) -> Record | None:
        """Return the event with an id, each of them once."""
        found = self._by_id.get(event_id)
        return found.pop(0) if found else None


class OriginalOutputs:
    """The events that a service has said, from a time on, until its tasks took over the rerun's states.

    `switched` tells when the tasks did that (ms): what they have said since is what the rerun would have said.
    Memory is bounded by what lies between the task that is farthest and the one that is farthest back.
    """

    def __init__(self, log: EventLog, service: Service, switched: Mapping[int, int]) -> None:
        self._log = log
        self._switched = switched
        self._service = service
        self._next: dict[TopicPartition, int] = {}
        self._newest_ms: dict[TopicPartition, int] = {}
        self._found: dict[Moment, ReplayingDecider] = {}

    def again(self) -> "OriginalOutputs":
        """Return another one, to look from an earlier time on."""
        return OriginalOutputs(self._log, self._service, self._switched)

    def is_own(self, record: Record) -> bool:
        """Tell whether the service has said this, before its task took over the rerun's states."""
        if (record.source or "").partition("/")[0] != self._service.speaks_as:
            return False
        task = self.task_of(record) if self._switched else None
        return task is None or record.timestamp_ms <= self._switched.get(task, record.timestamp_ms)

    def task_of(self, record: Record) -> int | None:
        """Return the task that has said an event; None when it says everything under no key."""
        return self._service.inputs[0].partition_of(record.subject.encode()) if record.subject else None

    async def begin(self, since_ms: int) -> None:
        """Look for what was said at this time or later."""
        for topic in self._service.outputs:
            for place in ((topic.name, partition) for partition in range(topic.partitions)):
                self._next[place] = await self._log.port.offset_at(*place, since_ms)
                self._newest_ms[place] = since_ms

    async def said(self, task: int, at_ms: int, count: int) -> "ReplayingDecider":
        """Return what a task has said at a time: at least `count` events, where so many are on the log."""
        while (found := self._at(task, at_ms)).count < count and await self._read_on():
            pass
        return found

    async def answer(self, task: int, at_ms: int, event_id: str) -> Record | None:
        """Return the answer to an effect that a task has said at a time."""
        while (found := self._at(task, at_ms).get(event_id)) is None and await self._read_on():
            pass
        return found

    def past(self, task: int, at_ms: int) -> None:
        """Forget what a task has said at a time."""
        self._found.pop((task, at_ms), None)
        if len(self._found) > _WORTH_TIDYING:
            self._found = {key: found for key, found in self._found.items() if key[1] >= at_ms - _KEPT_MS}

    def _at(self, task: int, at_ms: int) -> "ReplayingDecider":
        return self._found.get((task, at_ms)) or ReplayingDecider()

    async def _read_on(self) -> bool:
        """Read on where time is farthest back; False when nothing is left anywhere."""
        for place in sorted(self._next, key=self._newest_ms.__getitem__):
            records = await self._log.port.read(*place, self._next[place], _CHUNK)
            if records:
                self._next[place] = records[-1].offset + 1
                self._newest_ms[place] = max(record.timestamp_ms for record in records)
                for record in filter(self.is_own, records):
                    task = self.task_of(record)
                    for each in range(self._service.partitions) if task is None else [task]:
                        self._found.setdefault((each, record.timestamp_ms), ReplayingDecider()).add(record)
                return True
            self._newest_ms[place] = max(
                self._newest_ms.values()
            )  # nothing new there: the others have their turn first
        return False


_WORTH_TIDYING = 50_000


class Recollection:
    """What one task of a service has said and refused in a transaction; nothing while today's code decides."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._said: Mapping[str, Event] | None = None
        self._refused: Mapping[tuple[str, str], str] = {}

    async def recall(self, done: Done, then: ReplayingDecider) -> None:
        """Decide as the service did in a transaction; `then` is what it said at that time.

        Events that today's code cannot read any more are left out.
        """
        decoded = await self._log.decode_many(then.all)
        self._said = {record.event_id: event for record, event in decoded if isinstance(event, Event)}
        self._refused = {
            (act.record.event_id, decider): refusal.reason
            for act in done.acts
            if isinstance(act, Input)
            for decider, refusal in act.refused.items()
            if refusal.kind == "park"
        }

    def forget(self) -> None:
        """Let today's code decide from now on."""
        self._said = None

    @property
    def decides(self) -> bool:
        """Whether decisions are those of the past."""
        return self._said is not None

    def said(self, cause_id: str, decider: str, key: str) -> list[Event]:
        """Return what was said about a cause."""
        found = list[Event]()
        while event := (self._said or {}).get(derived_id(cause_id, decider, key, len(found))):
            found.append(event)
        return found

    def refuse(self, event_id: str, decider: str) -> None:
        """Fail as the decider did, if it did."""
        reason = self._refused.get((event_id, decider))
        if reason is not None:
            name, _, sentence = reason.partition(": ")
            raise type(name, (Exception,), {})(sentence)

    def cause_of(self, meta: Meta) -> str:
        """Return what the ids of all that is said about an input derive from."""
        is_foreign = meta.topic in self._log.foreigners.topics
        return f"{meta.topic}/{meta.partition}/{meta.offset}" if is_foreign else meta.id


def remembering(run: Service, recollection: Recollection) -> Service:
    """Return a service whose deciders say what was said, as long as they are in the past."""
    other = copy(run)
    other.deciders = tuple(Remembering(decider, recollection) for decider in run.deciders)
    return other


class Remembering(Decider[Any]):
    """A decider that says what was said, as long as it is in the past; then it decides."""

    def __init__(self, decider: Decider[Any], recollection: Recollection) -> None:
        self.__dict__.update(decider.__dict__)
        self._recollection = recollection

    def answer(self, state: Any, event: Event, meta: Meta) -> list[Event]:
        """Return what was said in answer to an event."""
        past = self._recollection
        if not past.decides:
            return super().answer(state, event, meta)
        past.refuse(meta.id, self.name)
        return past.said(past.cause_of(meta), self.name, "" if self.key is None else key_of(event) or "")

    def answer_deadline(self, name: str, state: Any, meta: Meta) -> list[Event]:
        """Return what was said when a deadline had passed."""
        past = self._recollection
        if not past.decides:
            return super().answer_deadline(name, state, meta)
        return past.said(meta.id, self.name, meta.subject)
