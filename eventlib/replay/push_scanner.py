"""A LogScanner for one task whose caller pushes the records, in time order, instead of reading a log."""

from bisect import insort
from collections.abc import Iterable, Sequence

from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.eventlog import EventLog
from eventlib.log.record import Record
from eventlib.model.event import Event, contract_of
from eventlib.model.service import Service
from eventlib.replay.partition_buffer import UNREAD, WHOLE, Item, PartitionBuffer
from eventlib.replay.scanner import LogScanner

CONSUMED, EMITTED = 1, 2
"""A record's roles for a task, as bits: a possible input, an output."""


class PushScanner(LogScanner):
    """The inputs and outputs of one task, pushed by its caller.

    An output is not decoded if the replayed one has the same bytes; nor is an input that another task's replay has made,
    which shares `made` with this one and has found its bytes on the log. Guarantee: memory holds only records that were
    pushed and are not consumed yet. The records of a time must be pushed before the transactions of that time are replayed.
    """

    def __init__(self, log: EventLog, service: Service, partition: int, made: dict[str, Item] | None = None) -> None:
        super().__init__(log, WHOLE, [service])
        self.made = {} if made is None else made
        self._service = service.name
        self._schemas: set[bytes] = set()
        for topic in service.inputs:
            topic_partition = topic.name, partition
            buffer = self._buffers[topic_partition] = PartitionBuffer(topic_partition, 0, None)
            buffer.ended = True  # nothing is read from the log

    async def push(self, given: Iterable[tuple[Record, int]]) -> None:
        """Push records with their roles; those of a topic in order."""
        schemas, add_input, add_output = self._schemas, self._add_input, self._add_output
        for record, role in given:
            schema = (record.value or b"")[:HEADER_BYTES]
            if schema not in schemas:  # fetched now if necessary: `read` is synchronous
                await self.decoded([record])
                schemas.add(schema)
            item: Item = (record, UNREAD)
            if role & CONSUMED:
                add_input(item)
            if role & EMITTED:
                add_output(self._service, item)

    def _inputs(self, items: list[Item]) -> list[Item]:
        return [self._input(record) for record, _ in items]

    def _input(self, record: Record) -> Item:
        made = None if record.id is None else self.made.pop(record.id, None)
        if made is not None and made[0] is record and made[1] is not UNREAD:
            return made
        return self._item(record, schemas_known=True)

    def read(self, emitted: Sequence[Item], now: Sequence[Event]) -> Sequence[Item]:
        """Return outputs with their events: those of `now` if the bytes are equal, others decoded."""
        found = list[Item]()
        for i, item in enumerate(emitted):
            record, event = item
            if event is not UNREAD:
                found.append(item)
            elif i < len(now) and self._has_bytes_of(record, now[i]):
                found.append((record, now[i]))
            else:
                found.append(self._item(record, schemas_known=True))
        return found

    def _has_bytes_of(self, record: Record, event: Event) -> bool:
        return (
            record.type == contract_of(type(event)).type
            and record.topic not in self._external
            and self._log.codec.gives(event, record.value or b"")
        )

    def unclaimed(self, service: str, at_ms: int) -> list[Item]:
        """Drop the task's outputs of a time, and return the unclaimed ones."""
        return [*self.read(super().unclaimed(service, at_ms), ())]

    def outputs_at(self, at_ms: int) -> int:
        """Return how many outputs of a time were pushed."""
        found = self._outputs.get((self._service, at_ms))
        return 0 if found is None else found.read

    def _add_input(self, item: Item) -> None:
        record = item[0]
        buffer = self._buffers[record.topic, record.partition]
        for cursor in buffer.cursors:
            if record.offset < cursor.next:
                return  # consumed before it was recorded
        if buffer.items and record.offset < buffer.items[-1][0].offset:
            insort(buffer.items, item, key=lambda each: each[0].offset)
        else:
            buffer.items.append(item)
        buffer.next = max(buffer.next, record.offset + 1)
        self._kept += 1
