"""Scans a log forwards in time: each event is read once, for all tasks of a replay, and decoded at most once.

It is not decoded if the decider that emitted it makes it again, with the same bytes, before it is consumed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.event_loader import EventLoader
from eventlib.replay.partition_buffer import (
    Buffered,
    Cursor,
    EmissionKey,
    Item,
    PartitionBuffer,
    Shard,
    refuse_dropped_inputs,
)
from eventlib.runtime.records import TaskClock, TaskTime
from eventlib.values import from_ms

_READ_AHEAD = 40_000
_LEAST, _MOST = 50, 2_000
"""How many records are read ahead over all partitions, and of one partition at least and at most."""

_KEPT = 60_000
"""How many inputs are buffered for tasks that are behind; they read dropped ones again."""

_MAX_EMITTERS = 50_000
"""How many deciders' keys are cached with whether they are in this shard."""

_NEVER_MS = 1 << 62


Moment = tuple[str, int, int]
"""A service, and a time of it: see `TaskTime`."""

Emitter = tuple[str | None, str | None]
"""The decider that emitted an event, and its key."""


class OutputHistory:
    """A service's outputs of one time: how many were read, and which are not claimed yet."""

    __slots__ = ("items", "read")

    def __init__(self) -> None:
        self.read = 0
        self.items: dict[EmissionKey, list[Buffered]] = {}


_NOTHING = OutputHistory()


class LogScanner(EventLoader):
    """The events of a log around a time that advances.

    Memory is bounded, however long the log is; `damaged` has the places of records that were skipped so far. Guarantee:
    after `complete`, all outputs of a time are there, although the records of a partition need not be sorted by time.
    """

    def __init__(
        self, log: EventLog, part: Shard, services: Sequence[Service], damaged: Collection[tuple[str, int, int]] = ()
    ) -> None:
        super().__init__(log)
        self._part = part
        self._damaged = damaged
        self._damaged_in: dict[TopicPartition, list[int]] = {}
        self._lost = Counter[str]()
        self._emits = {each.name: {contract_of(event).topic.name for event in each.emits} for each in services}
        self._services = {service.emits_as: (service, service.inputs[0]) for service in services if service.inputs}
        self._service_of: dict[Emitter, str] = {}
        self._outputs: dict[Moment, OutputHistory] = {}
        self._buffers: dict[TopicPartition, PartitionBuffer] = {}
        self._chunk = _MOST
        self._horizon_ms = -1
        self._kept = 0
        self.events = 0
        self.clocks: Mapping[tuple[str, int], TaskClock] = {}
        """The clocks of tasks, by service and partition, that an operator has reset."""

    def time(self, service: str, partition: int, at_ms: int) -> TaskTime:
        """Return what orders a task's transaction at a time."""
        clock = self.clocks.get((service, partition)) if self.clocks else None
        return (at_ms, at_ms) if clock is None else clock.time(at_ms)

    async def open(self, topics: Mapping[str, int], tasks: Iterable[tuple[Service, int]]) -> None:
        """Start at the oldest records of these topics (with partition counts), with inputs for these tasks."""
        handled: dict[TopicPartition, set[str]] = {}
        for service, partition in tasks:
            for event in service.handles:
                contract = contract_of(event)
                handled.setdefault((contract.topic.name, partition), set()).add(contract.type)
        for topic, partitions in topics.items():
            for each in ((topic, partition) for partition in range(partitions)):
                types = frozenset(handled.get(each, ()))
                any_type = topic in self._external and bool(types)
                start = await self.log.port.start(*each)
                self._buffers[each] = PartitionBuffer(each, start, None if any_type else types)
        self._chunk = min(_MOST, max(_LEAST, _READ_AHEAD // max(1, len(self._buffers))))

    async def cursor(self, topic_partition: TopicPartition, first: int) -> Cursor:
        """Return a task's cursor in a partition. Raises: ContractError when retention has dropped inputs."""
        await refuse_dropped_inputs(self.log.port, topic_partition, first)
        return Cursor(self._buffers[topic_partition], first, self.log.port, self.load)

    async def take(self, cursor: Cursor, last: int) -> list[Buffered]:
        """Return a cursor's next inputs up to an offset."""
        found, buffer = list[Buffered](), cursor.buffer
        while True:
            if cursor.at < 0:
                found += await cursor.catch_up(last)
            if cursor.next > last or buffer.next > last or buffer.ended:
                break
            await self._read(buffer)  # may drop items that this cursor still needs
        if cursor.next > last:
            return found
        buffered = cursor.consume_to(last)
        self._kept -= buffer.trim()
        return found + buffered if found else buffered

    async def complete(self, time: TaskTime, emitted: Mapping[str, int]) -> set[str]:
        """Read until all outputs of a time are there; `emitted` is their number by service.

        Returns the services of which some are damaged. Raises: ContractError when others are not on the log.
        """
        order_ms, at_ms = time
        if order_ms >= self._horizon_ms:
            await self._advance(order_ms)
        lacking = set[str]()
        for service, count in emitted.items():
            moment = service, order_ms, at_ms
            while (missing := count - self._outputs.get(moment, _NOTHING).read) > 0:
                if missing <= self._damaged_outputs(service) - self._lost[service]:
                    self._lost[service] += missing
                    lacking.add(service)
                    break
                if not await self._read_all():
                    raise ContractError(
                        f"{service} emitted {count} events at {from_ms(at_ms).isoformat()}, and {count - missing} of them are "
                        "on the log: has retention dropped the others?"
                    )
        return lacking

    def _damaged_outputs(self, name: str) -> int:
        """Return how many of the damaged records read so far a service may have emitted."""
        return sum(topic in self._emits[name] for topic, _, _ in self._damaged)

    def damaged_in(self, topic_partition: TopicPartition) -> Sequence[int]:
        """Return the offsets of the damaged records of a partition, of those read so far."""
        if sum(map(len, self._damaged_in.values())) != len(self._damaged):
            self._damaged_in.clear()
            for topic, partition, offset in self._damaged:
                self._damaged_in.setdefault((topic, partition), []).append(offset)
        return self._damaged_in.get(topic_partition, ())

    def outputs(self, service: str, time: TaskTime) -> dict[EmissionKey, list[Buffered]]:
        """Return a service's unclaimed outputs of a time; remove one to claim it."""
        return self._outputs.get((service, *time), _NOTHING).items

    def unclaimed(self, service: str, time: TaskTime) -> list[Item]:
        """Drop a service's outputs of a time, and return the unclaimed ones."""
        left = self._outputs.pop((service, *time), _NOTHING).items
        return [item for items in left.values() for item in self.read(items, ())]

    def unknown(self, time: TaskTime) -> list[Item]:
        """Drop and return the outputs before a time that belong to no journal entry."""
        old = [moment for moment in self._outputs if moment[1:] < time]
        return [item for moment in old for item in self.unclaimed(moment[0], moment[1:])]

    async def _advance(self, at_ms: int) -> None:
        for buffer in self._buffers.values():
            while buffer.newest_ms <= at_ms and not buffer.ended:
                await self._read(buffer)
        unfinished = (buffer.newest_ms for buffer in self._buffers.values() if not buffer.ended)
        self._horizon_ms = min(unfinished, default=_NEVER_MS)

    async def _read_all(self) -> bool:
        """Read a chunk of each partition; False if nothing was left."""
        before = self.events
        for buffer in self._buffers.values():
            await self._read(buffer)
        return self.events > before

    async def _read(self, buffer: PartitionBuffer) -> None:
        records = await self.log.port.read(*buffer.topic_partition, buffer.next, self._chunk)
        if not records:
            buffer.ended = True
            return
        self.events += len(records)
        for record in self._sift(buffer, records):
            await self._learn(record)
        buffer.next = records[-1].offset + 1
        buffer.newest_ms = max(buffer.newest_ms, *[record.timestamp_ms for record in records])
        while self._kept > _KEPT:
            longest = max(self._buffers.values(), key=lambda each: len(each.items))
            self._kept -= longest.drop((len(longest.items) + 1) // 2)

    def _sift(self, buffer: PartitionBuffer, records: list[Record]) -> list[Record]:
        """Keep the inputs and outputs among records, and return those whose schemas are to be learned."""
        types, known = buffer.types, self._service_of
        inputs, to_learn = list[Buffered](), list[Record]()
        for record in records:
            name = record.source, record.subject
            service = known.get(name)
            if service is None:
                service = self._emitting_service(name)
            is_input = types is None or record.type in types
            if not service and not is_input:
                continue
            item = Buffered(record)
            if not self._is_ready(item):
                to_learn.append(record)
            if service:
                self._add_output(service, item)
            if is_input:
                inputs.append(item)
        buffer.items += inputs
        self._kept += len(inputs)
        return to_learn

    def _add_output(self, service: str, item: Buffered) -> None:
        record = item.record
        order_ms = record.timestamp_ms
        if self.clocks:
            order_ms = self._order_ms(service, record)
        moment = service, order_ms, record.timestamp_ms
        outputs = self._outputs.get(moment)
        if outputs is None:
            outputs = self._outputs[moment] = OutputHistory()
        outputs.read += 1
        by = record.source, record.subject, record.causation_id
        items = outputs.items.get(by)
        if items is None:
            outputs.items[by] = [item]
        else:
            items.append(item)

    def _order_ms(self, service: str, record: Record) -> int:
        _, keyed = self._services[(record.source or "").partition("/")[0]]
        clock = self.clocks.get((service, keyed.partition_of((record.subject or "").encode())))
        return record.timestamp_ms if clock is None else clock.order_ms(record.timestamp_ms)

    def _emitting_service(self, name: Emitter) -> str:
        """Return the service that emitted an event, by source and subject, if the emitting task is in this shard; else nothing."""
        if len(self._service_of) > _MAX_EMITTERS:
            self._service_of.clear()
        source, subject = name
        emitter = self._services.get((source or "").partition("/")[0])
        found = ""
        if emitter is not None:
            service, keyed = emitter
            if self._part.has(service, keyed.partition_of((subject or "").encode())):
                found = service.name
        self._service_of[name] = found
        return found
