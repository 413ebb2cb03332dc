"""A LogScanner for one task whose caller pushes the records, in time order, instead of reading a log."""

from bisect import insort
from collections.abc import Iterable

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.partition_buffer import WHOLE, Buffered, Cursor, PartitionBuffer
from eventlib.replay.scanner import LogScanner

CONSUMED, EMITTED = 1, 2
"""A record's roles for a task, as bits: a possible input, an output."""


class PushScanner(LogScanner):
    """The inputs and outputs of one task, pushed by its caller: one object for all tasks that a record concerns.

    Guarantee: memory holds only records that were pushed and are not consumed yet. The records of a time must be pushed
    before the transactions of that time are replayed. Inputs that retention has dropped are refused if it `is_whole`.
    """

    def __init__(self, log: EventLog, service: Service, partition: int, *, is_whole: bool = True) -> None:
        super().__init__(log, WHOLE, [service])
        self._service = service.name
        self._is_whole = is_whole
        for topic in service.inputs:
            topic_partition = topic.name, partition
            buffer = self._buffers[topic_partition] = PartitionBuffer(topic_partition, 0, None)
            buffer.ended = True  # nothing is read from the log

    async def push(self, given: Iterable[tuple[Buffered, int]]) -> None:
        """Push records with their roles; those of a topic in order."""
        for item, role in given:
            if not self._is_ready(item):
                await self._learn(item.record)
            if role & CONSUMED:
                self._add_input(item)
            if role & EMITTED:
                self._add_output(self._service, item)

    def start(self, topic_partition: TopicPartition, first: int) -> None:
        """Begin at an offset of an input: what is before it is read from the log, if a cursor goes there."""
        buffer = self._buffers[topic_partition]
        buffer.base = buffer.next = first

    async def cursor(self, topic_partition: TopicPartition, first: int) -> Cursor:
        """See `LogScanner.cursor`."""
        if self._is_whole:
            return await super().cursor(topic_partition, first)
        return Cursor(self._buffers[topic_partition], first, self.log.port, self.load)

    def leave(self) -> list[Record]:
        """Drop all outputs that were not claimed, and return their records."""
        left = [item.record for each in self._outputs.values() for items in each.items.values() for item in items]
        self._outputs.clear()
        return left

    def outputs_at(self, at_ms: int) -> int:
        """Return how many outputs of a time were pushed."""
        found = self._outputs.get((self._service, at_ms, at_ms))
        return 0 if found is None else found.read

    def _add_input(self, item: Buffered) -> None:
        record = item.record
        buffer = self._buffers[record.topic, record.partition]
        for cursor in buffer.cursors:
            if record.offset < cursor.next:
                return  # consumed before it was recorded
        if buffer.items and record.offset < buffer.items[-1].record.offset:
            insort(buffer.items, item, key=lambda each: each.record.offset)
        else:
            buffer.items.append(item)
        buffer.next = max(buffer.next, record.offset + 1)
        self._kept += 1
