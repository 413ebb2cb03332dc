"""A window for one task that is given its records, in the order of their times, instead of reading them."""

from bisect import insort
from collections.abc import Iterable, Sequence

from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.eventlog import EventLog
from eventlib.log.base import Record
from eventlib.model.event import Event, contract_of
from eventlib.model.service import Service
from eventlib.replay.partition_buffer import UNREAD, WHOLE, Item, PartitionBuffer
from eventlib.replay.scanner import LogScanner

HEARD, SAID = 1, 2
"""What a record is to a task, as bits: something that it may take as an input, something that it has said."""


class FedWindow(LogScanner):
    """What one task takes and says, given to it.

    What it has said is not decoded where its bytes are those of what it says again. Guarantee: memory holds what the
    task was given and has not taken yet. What was recorded at a moment has to be given before what the task did then.
    """

    def __init__(self, log: EventLog, service: Service, partition: int) -> None:
        super().__init__(log, WHOLE, [service])
        self._service = service.name
        self._schemas: set[bytes] = set()
        for topic in service.inputs:
            place = topic.name, partition
            strip = self._strips[place] = PartitionBuffer(place, 0, None)
            strip.ended = True  # nobody reads on

    async def give(self, given: Iterable[tuple[Record, int]]) -> None:
        """Take in records that the task may take as inputs, has said, or both; a topic's in order."""
        schemas, takes, notes = self._schemas, self._put, self._note
        for record, role in given:
            schema = (record.value or b"")[:HEADER_BYTES]
            if schema not in schemas:  # it is learned now if need be, since `read` cannot wait
                (item,) = await self.decoded([record])
                schemas.add(schema)
            else:
                item = self._item(record, schemas_known=True) if role & HEARD else (record, UNREAD)
            if role & HEARD:
                takes(item)
            if role & SAID:
                notes(self._service, item)

    def read(self, said: Sequence[Item], now: Sequence[Event]) -> Sequence[Item]:
        """Return what was said with its events: those of `now` where the bytes are theirs, others decoded."""
        found = list[Item]()
        for i, item in enumerate(said):
            record, event = item
            if event is not UNREAD:
                found.append(item)
            elif i < len(now) and self._is(record, now[i]):
                found.append((record, now[i]))
            else:
                found.append(self._item(record, schemas_known=True))
        return found

    def _is(self, record: Record, event: Event) -> bool:
        return (
            record.type == contract_of(type(event)).type
            and record.topic not in self._foreign
            and self._log.codec.gives(event, record.value or b"")
        )

    def unclaimed(self, service: str, at_ms: int) -> list[Item]:
        """Forget what the task said at a time, and return what nobody has claimed of it."""
        return [*self.read(super().unclaimed(service, at_ms), ())]

    def said_at(self, at_ms: int) -> int:
        """Return how much the task has said at a time."""
        found = self._said.get((self._service, at_ms))
        return 0 if found is None else found.read

    def _put(self, item: Item) -> None:
        record = item[0]
        strip = self._strips[record.topic, record.partition]
        for taker in strip.takers:
            if record.offset < taker.next:
                return  # it was taken before it was recorded: whoever was told of it then is asked about it
        if strip.items and record.offset < strip.items[-1][0].offset:
            insort(strip.items, item, key=lambda each: each[0].offset)
        else:
            strip.items.append(item)
        strip.next = max(strip.next, record.offset + 1)
        self._kept += 1
