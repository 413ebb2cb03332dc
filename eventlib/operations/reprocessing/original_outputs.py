"""The original outputs of a service by task and time, and the decider that repeats them."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta, key_of
from eventlib.model.identity import derived_id
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.queries.task_clock import clocks_of
from eventlib.replay.journal_steps import Consumed, Done
from eventlib.runtime.records import TaskClock

_CHUNK = 500
_KEPT_MS = 60_000
"""How long outputs that were not asked for are kept, in the log's time: tasks do not progress exactly in step."""

Moment = tuple[int, int]
"""A task, and the time of one of its transactions (ms)."""


class OutputsAt:
    """A service's outputs at one time. An id occurs twice if its cause did."""

    def __init__(self) -> None:
        self.count = 0
        self._by_id: dict[str, list[Record]] = {}

    def add(self, record: Record) -> None:
        """Add an event."""
        self.count += 1
        self._by_id.setdefault(record.event_id, []).append(record)

    @property
    def all(self) -> list[Record]:
        """The events that were not taken."""
        return [record for found in self._by_id.values() for record in found]

    def get(self, event_id: str) -> Record | None:
        """Return the oldest event with an id that was not taken."""
        found = self._by_id.get(event_id)
        return found[0] if found else None

    def take(self, event_id: str) -> Record | None:
        """Remove and return the oldest event with an id."""
        found = self._by_id.get(event_id)
        return found.pop(0) if found else None


class OriginalOutputs:
    """The outputs of a service, from a time on, until its tasks took over the rerun's states.

    `switched` has when the tasks did that (ms): their later outputs are the rerun's.
    Memory is bounded by what lies between the fastest and the slowest task.
    """

    def __init__(self, log: EventLog, service: Service, switched: Mapping[int, int]) -> None:
        self._log = log
        self._switched = switched
        self._service = service
        self._next: dict[TopicPartition, int] = {}
        self._newest_ms: dict[TopicPartition, int] = {}
        self._found: dict[Moment, OutputsAt] = {}
        self._clocks: Mapping[tuple[str, int], TaskClock] = {}

    def again(self) -> "OriginalOutputs":
        """Return another instance, to read from an earlier time on."""
        return OriginalOutputs(self._log, self._service, self._switched)

    def is_own(self, record: Record) -> bool:
        """Return whether the service emitted this, before its task took over the rerun's states."""
        if (record.source or "").partition("/")[0] != self._service.emits_as:
            return False
        task = self.task_of(record) if self._switched else None
        return task is None or record.timestamp_ms <= self._switched.get(task, record.timestamp_ms)

    def task_of(self, record: Record) -> int | None:
        """Return the task that emitted an event; None if the event has no key."""
        return self._service.inputs[0].partition_of(record.subject.encode()) if record.subject else None

    async def begin(self, since_ms: int) -> None:
        """Start reading at a time."""
        tasks = [(self._service, partition) for partition in range(self._service.partitions)]
        self._clocks = await clocks_of(self._log, tasks)
        for topic in self._service.outputs:
            for place in ((topic.name, partition) for partition in range(topic.partitions)):
                self._next[place] = await self._log.port.offset_at(*place, since_ms)
                self._newest_ms[place] = since_ms

    async def outputs(self, task: int, at_ms: int, count: int) -> "OutputsAt":
        """Return a task's outputs at a time: at least `count` events, if the log has so many."""
        while (found := self._at(task, at_ms)).count < count and await self._read_on():
            pass
        return found

    async def answer(self, task: int, at_ms: int, event_id: str) -> Record | None:
        """Return a task's answer to an effect at a time."""
        while (found := self._at(task, at_ms).get(event_id)) is None and await self._read_on():
            pass
        return found

    def past(self, task: int, at_ms: int) -> None:
        """Drop a task's outputs at a time."""
        self._found.pop((task, at_ms), None)
        if len(self._found) > _WORTH_TIDYING:
            least_ms = self.order_ms(task, at_ms) - _KEPT_MS
            self._found = {key: found for key, found in self._found.items() if self.order_ms(*key) >= least_ms}

    def order_ms(self, task: int, at_ms: int) -> int:
        """Return the time (ms) by which what a task did at a time is ordered among all tasks."""
        clock = self._clocks.get((self._service.name, task))
        return at_ms if clock is None else clock.order_ms(at_ms)

    def _at(self, task: int, at_ms: int) -> "OutputsAt":
        return self._found.get((task, at_ms)) or OutputsAt()

    async def _read_on(self) -> bool:
        """Read the partition that is farthest behind; False when nothing is left in any."""
        for place in sorted(self._next, key=self._newest_ms.__getitem__):
            records = await self._log.port.read(*place, self._next[place], _CHUNK)
            if records:
                self._next[place] = records[-1].offset + 1
                self._newest_ms[place] = max(record.timestamp_ms for record in records)
                for record in filter(self.is_own, records):
                    task = self.task_of(record)
                    for each in range(self._service.partitions) if task is None else [task]:
                        self._found.setdefault((each, record.timestamp_ms), OutputsAt()).add(record)
                return True
            self._newest_ms[place] = max(self._newest_ms.values())  # no new records there: try the others first
        return False


_WORTH_TIDYING = 50_000


class RecordedDecisions:
    """The recorded outputs and failures of one task's transaction; empty while the current code decides."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._outputs: Mapping[str, Event] | None = None
        self._refused: Mapping[tuple[str, str], str] = {}

    async def recall(self, done: Done, then: OutputsAt) -> None:
        """Repeat the service's decisions in a transaction; `then` are its outputs at that time.

        Events that the current code cannot read are left out.
        """
        decoded = await self._log.decode_many(then.all)
        self._outputs = {record.event_id: event for record, event in decoded if isinstance(event, Event)}
        self._refused = {
            (record.event_id, decider): refusal.reason
            for act in done.acts
            if isinstance(act, Consumed)
            for record, refused in act.each()
            for decider, refusal in refused.items()
            if refusal.kind == "park"
        }

    def forget(self) -> None:
        """Let the current code decide from now on."""
        self._outputs = None

    @property
    def decides(self) -> bool:
        """Whether recorded decisions are repeated."""
        return self._outputs is not None

    def outputs_of(self, cause_id: str, decider: str, key: str) -> list[Event]:
        """Return the recorded outputs for a cause."""
        found = list[Event]()
        while event := (self._outputs or {}).get(derived_id(cause_id, decider, key, len(found))):
            found.append(event)
        return found

    def refuse(self, event_id: str, decider: str) -> None:
        """Fail as the decider did, if it did."""
        reason = self._refused.get((event_id, decider))
        if reason is not None:
            name, _, sentence = reason.partition(": ")
            raise type(name, (Exception,), {})(sentence)

    def cause_of(self, meta: Meta) -> str:
        """Return the id from which the ids of an input's outputs derive."""
        is_external = meta.topic in self._log.external.topics
        return f"{meta.topic}/{meta.partition}/{meta.offset}" if is_external else meta.id


def replaying(run: Service, recorded_decisions: RecordedDecisions) -> Service:
    """Return a service whose deciders repeat the recorded outputs while `recorded_decisions` has any."""
    other = copy(run)
    other.deciders = tuple(ReplayingDecider(decider, recorded_decisions) for decider in run.deciders)
    return other


class ReplayingDecider(Decider[Any]):
    """A decider that repeats recorded outputs while there are any; then it decides."""

    def __init__(self, decider: Decider[Any], recorded_decisions: RecordedDecisions) -> None:
        self.__dict__.update(decider.__dict__)
        self._recorded_decisions = recorded_decisions

    def answer(self, state: Any, event: Event, meta: Meta) -> list[Event]:
        """Return the outputs for an event."""
        past = self._recorded_decisions
        if not past.decides:
            return super().answer(state, event, meta)
        past.refuse(meta.id, self.name)
        return past.outputs_of(past.cause_of(meta), self.name, "" if self.key is None else key_of(event) or "")

    def answer_deadline(self, name: str, state: Any, meta: Meta) -> list[Event]:
        """Return the outputs for a deadline that has passed."""
        past = self._recorded_decisions
        if not past.decides:
            return super().answer_deadline(name, state, meta)
        return past.outputs_of(meta.id, self.name, meta.subject)
