"""One partition of a topic, read once for all tasks that consume it; and the shard of a replay that a process takes."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from eventlib.errors import UndecodableRecord
from eventlib.log.base import Log, Record, TopicPartition
from eventlib.model.event import Event
from eventlib.model.service import Service

Item = tuple[Record, Event | UndecodableRecord]
"""A record as its deciders see it, with the event in it, or why there is none."""

UNREAD = UndecodableRecord("it was not read", "", 0, -1)
"""Stands for the event of what is decoded only where comparing bytes does not tell."""

Decode = Callable[[list[Record]], Awaitable[list[Item]]]

_WORTH_TRIMMING = 512
_CHUNK = 500


class PartitionBuffer:
    """What has been read of a partition, as far as some task may still want it.

    `next` is the offset to read from, `base` where `items` begin: every input between the two is in there. `newest_ms`
    is the latest time among what was read; `ended` is set when there was nothing more. `types` are those that some
    task handles here; None where others write, whose records have no type.
    """

    __slots__ = ("base", "ended", "items", "newest_ms", "next", "place", "takers", "types")

    def __init__(self, place: TopicPartition, first: int, types: frozenset[str] | None) -> None:
        self.place = place
        self.types = types
        self.next = self.base = first
        self.newest_ms = -1
        self.ended = False
        self.items: list[Item] = []
        self.takers: list[Taker] = []

    def is_input(self, record: Record) -> bool:
        """Tell whether some task handles this record."""
        return self.types is None or record.type in self.types

    def drop(self, count: int) -> int:
        """Forget the oldest items, and return how many; who has not taken them yet reads them again by itself."""
        self.base = self.items[count][0].offset if count < len(self.items) else self.next
        del self.items[:count]
        for taker in self.takers:
            taker.at -= count
        return count

    def trim(self) -> int:
        """Forget what everybody has taken, when it is worth it, and return how many items that were."""
        taken = min(taker.at for taker in self.takers)
        return 0 if taken < _WORTH_TRIMMING else self.drop(taken)


class Taker:
    """One task's way through a strip. `at` is the index of its next item; negative when the strip has dropped that."""

    __slots__ = ("_chunk", "_chunk_end", "_decode", "_log", "at", "next", "strip")

    def __init__(self, strip: PartitionBuffer, first: int, log: Log, decode: Decode) -> None:
        self.strip = strip
        self._log = log
        self._decode = decode
        self.next = first
        self._chunk: list[Item] = []
        self._chunk_end = first
        self.at = -1
        self._join()
        strip.takers.append(self)

    def taken(self, last: int) -> list[Item]:
        """Return the inputs up to an offset that were not taken before, as far as the strip has them."""
        items, first = self.strip.items, self.at
        end = first
        while end < len(items) and items[end][0].offset <= last:
            end += 1
        self.at = end
        self.next = last + 1
        return items[first:end]

    async def caught_up(self, last: int) -> list[Item]:
        """Return what of that the strip has dropped: it is read again, in chunks of this task's own."""
        found = list[Item]()
        while self.at < 0 and self.next <= last:
            if self.next >= self._chunk_end:
                records = await self._log.read(*self.strip.place, self.next, _CHUNK)
                if not records:
                    self.next = last + 1
                    break
                self._chunk = await self._decode([r for r in records if self.strip.is_input(r)])
                self._chunk_end = records[-1].offset + 1
            until = min(last + 1, self._chunk_end)
            found += [item for item in self._chunk if self.next <= item[0].offset < until]
            self.next = until
            self._join()
        return found

    def go_to(self, offset: int) -> None:
        """Go on at an offset, wherever it is."""
        self.next, self._chunk_end, self.at = offset, offset, -1
        self._join()

    def _join(self) -> None:
        if self.next >= self.strip.base:
            self.at = bisect_left(self.strip.items, self.next, key=_offset)
            self._chunk, self._chunk_end = [], self.next


def _offset(item: Item) -> int:
    return item[0].offset


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `index` of `count`: every so many-th task of each service.

    What has no key cannot be told apart by task, so the tasks of a service that handles keyless events stay together.
    """

    index: int = 0
    count: int = 1

    def has(self, service: Service, partition: int) -> bool:
        """Tell whether a task belongs to this part."""
        together = any(decider.key is None for decider in service.deciders)
        return self.index == (0 if together else partition % self.count)


WHOLE = Shard()
