"""One partition's part of a reader: what has come of it, and was not taken yet."""

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Protocol

from eventlib.log.kafka.batches import Chunk
from eventlib.log.port import Record, TopicPartition

if TYPE_CHECKING:
    from eventlib.log.kafka.tail import Tail


_A_LITTLE = 5_000


class Looking(Protocol):
    """A reader, as its slots know it."""

    def look(self) -> None:
        """Something has changed: look again."""

    def room(self) -> int:
        """Return how many bytes a slot may hold."""


class Slot:
    """A partition, from a position on.

    `position` is the next offset to be taken, `fetched` the next to be brought. `tail` brings it, or nobody does
    while the slot has to catch up.
    """

    def __init__(self, reader: Looking, place: TopicPartition, offset: int) -> None:
        self.reader = reader
        self.place = place
        self.position = offset
        self.fetched = offset
        self.tail: Tail | None = None
        self._chunks = deque[Chunk]()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether more may be brought."""
        return self._bytes < self.reader.room()

    @property
    def is_ready(self) -> bool:
        """Whether there is something to take."""
        return bool(self._chunks)

    @property
    def is_refused(self) -> bool:
        """Whether what comes next cannot be taken: it was damaged."""
        return bool(self._chunks) and self._chunks[0].is_refused

    def deliver(self, chunk: Chunk) -> None:
        """Keep what comes next, if this is it and there is room."""
        if not chunk.first <= self.fetched < chunk.next or not self.has_room:
            return
        self.fetched = chunk.next
        if chunk.is_empty:
            self.skip_to(chunk.next)
        else:
            self._chunks.append(chunk)
            self._bytes += chunk.size
        self.reader.look()

    def skip_to(self, offset: int) -> None:
        """Know that there is nothing before an offset."""
        self.fetched = max(self.fetched, offset)
        if not self._chunks:
            self.position = max(self.position, self.fetched)

    def go_past(self, offset: int) -> bool:
        """Go on at an offset a little ahead; False, and nothing is done, when it is not."""
        if self.is_refused or not self.position <= offset <= self.fetched + _A_LITTLE:
            return False
        self.position = offset
        return True

    def take(self, limit: int) -> list[Record]:
        """Take up to `limit` records; the position goes past gaps after them. Raises: as `Chunk.records` does."""
        found = list[Record]()
        while self._chunks and len(found) < limit:
            if found and self.is_refused:
                return found
            chunk = self._chunks[0]
            records = chunk.records
            first = bisect_left(records, self.position, key=_offset)
            taken = records[first : first + limit - len(found)]
            found += taken
            if first + len(taken) == len(records):
                self._chunks.popleft()
                self._bytes -= chunk.size
                self.position = max(self.position, chunk.next)
            else:
                self.position = taken[-1].offset + 1
        if not self._chunks:
            self.position = max(self.position, self.fetched)
        return found


def _offset(record: Record) -> int:
    return record.offset
