"""Compares the outputs of a service with those of its rerun."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from eventlib.errors import UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.operations.reprocessing.original_outputs import OriginalOutputs
from eventlib.operations.reprocessing.pending_inputs import note_of

_CHUNK = 2_000


class OriginalOutput(NamedTuple):
    """An event that differs between a service (`old`) and its rerun (`new`)."""

    old: Record | None
    new: Record | None

    @property
    def decider(self) -> str:
        """The decider that emitted it."""
        return (self.either.source or "").partition("/")[2]

    @property
    def either(self) -> Record:
        """The service's event, else the rerun's."""
        found = self.old or self.new
        assert found is not None  # noqa: S101  one of the two is there
        return found

    @property
    def is_one_fact(self) -> bool:
        """Whether both have the same type and key: only the content differs."""
        return self.old is not None and self.new is not None and _type_and_key(self.old) == _type_and_key(self.new)


def _type_and_key(record: Record) -> tuple[str | None, bytes | None]:
    return record.type, record.key


async def event_in(log: EventLog, record: Record) -> Event | str:
    """Return the event in a record, or why it cannot be read."""
    try:
        event = await log.decode_now(record)
    except UndecodableRecord as error:
        return error.reason
    return f"{record.type} is not an event of {log.choreography.name}" if event is None else event


class OutputDiff:
    """Compares the outputs of a service with those of its rerun, up to the rerun's position.

    Two events match by id; they are unchanged if type, key and content are equal, whenever they were emitted. `unchanged`
    counts those by decider, `moved` are those consumed at another position than the service's. Memory: the differences,
    and what lies between the two in one partition.
    """

    def __init__(self, log: EventLog, run: Service, recorded: OriginalOutputs) -> None:
        self.unchanged = Counter[str]()
        self.moved = list[OriginalOutput]()
        self._log = log
        self._run = run
        self._recorded = recorded
        self._pairs = list[OriginalOutput]()
        self._alone: tuple[_ById, _ById] = ({}, {})
        self._offsets: dict[TopicPartition, int] = {}

    async def catch_up(self) -> None:
        """Compare the outputs since the last call."""
        for topic in self._run.outputs:
            for partition in range(topic.partitions):
                await self._compare((topic.name, partition), (self._run.output_topic(topic).name, partition))

    def changed(self, times: Sequence[int]) -> list[OriginalOutput]:
        """Return the missing, added and changed events up to a time of each task (ms), in time order."""
        old = {each.event_id: each for found in self._alone[0].values() for each in found if self._is_due(each, times)}
        new = [each for found in self._alone[1].values() for each in found]
        pairs = [*self._pairs, *(OriginalOutput(old.pop(note_of(each).instead, None), each) for each in new)]
        pairs += [OriginalOutput(each, None) for each in old.values()]
        return sorted(pairs, key=lambda pair: (pair.either.timestamp_ms, pair.either.event_id))

    def only_recorded(self, event_id: str) -> Record | None:
        """Return an event that only the service emitted."""
        found = self._alone[0].get(event_id)
        return found[0] if found else None

    def _is_due(self, recorded: Record, times: Sequence[int]) -> bool:
        task = self._recorded.task_of(recorded)
        return recorded.timestamp_ms <= (max(times) if task is None else times[task])

    async def _compare(self, *partitions: TopicPartition) -> None:
        """Read one partition of both in turns, so that little lies between the two."""
        more = True
        while more:
            more = False
            for side, partition in enumerate(partitions):
                records = await self._log.port.read(*partition, self._offsets.get(partition, 0), _CHUNK)
                if records:
                    more = True
                    self._offsets[partition] = records[-1].offset + 1
                for record in records:
                    if side or self._recorded.is_own(record):
                        await self._take(side, record)

    async def _take(self, side: int, record: Record) -> None:
        others = self._alone[1 - side]
        found = others.get(record.event_id)
        if found is None:
            self._alone[side].setdefault(record.event_id, []).append(record)
            return
        other = found.pop(0)
        if not found:
            del others[record.event_id]
        pair = OriginalOutput(other, record) if side else OriginalOutput(record, other)
        if await self._is_unchanged(pair):
            self.unchanged[pair.decider] += 1
            if pair.new is not None and note_of(pair.new).offset is None:
                self.moved.append(pair)
        else:
            self._pairs.append(pair)

    async def _is_unchanged(self, pair: OriginalOutput) -> bool:
        if not pair.is_one_fact or pair.old is None or pair.new is None:
            return False
        # The same content may have other bytes, when its schema has changed.
        return pair.old.value == pair.new.value or await event_in(self._log, pair.old) == await event_in(
            self._log, pair.new
        )


_ById = dict[str, list[Record]]
