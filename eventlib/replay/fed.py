"""A window for one task that is given its records, in the order of their times, instead of reading them."""

from bisect import insort
from collections.abc import Sequence

from eventlib.eventlog import EventLog
from eventlib.log.port import Record
from eventlib.replay.part import WHOLE
from eventlib.replay.strip import Item, Strip
from eventlib.replay.window import Window
from eventlib.service import Service


class FedWindow(Window):
    """What one task takes and says, given to it.

    Guarantee: memory holds what the task was given and has not taken yet. What was recorded at a moment has to be
    given before what the task did then.
    """

    def __init__(self, log: EventLog, service: Service, partition: int) -> None:
        super().__init__(log, WHOLE, [service])
        self._service = service.name
        for topic in service.inputs:
            place = topic.name, partition
            strip = self._strips[place] = Strip(place, 0, None)
            strip.ended = True  # nobody reads on

    async def give(self, heard: Sequence[Record], said: Sequence[Record]) -> None:
        """Take in what the task may take as inputs, and what it has said."""
        known = {id(record): item for record, item in zip(heard, await self.decoded([*heard]), strict=True)}
        for record in heard:
            self._put(known[id(record)])
        new = [record for record in said if id(record) not in known]
        known.update(zip(map(id, new), await self.decoded(new), strict=True))
        for record in said:
            self._note(self._service, known[id(record)])

    def said_at(self, at_ms: int) -> int:
        """Return how much the task has said at a time."""
        found = self._said.get((self._service, at_ms))
        return 0 if found is None else found.read

    def _put(self, item: Item) -> None:
        record = item[0]
        strip = self._strips[record.topic, record.partition]
        if any(record.offset < taker.next for taker in strip.takers):
            return  # it was taken before it was recorded: whoever was told of it then is asked about it
        if strip.items and record.offset < strip.items[-1][0].offset:
            insort(strip.items, item, key=lambda each: each[0].offset)
        else:
            strip.items.append(item)
        strip.next = max(strip.next, record.offset + 1)
        self._kept += 1
