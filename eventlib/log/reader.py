"""The reader of in-process and file logs: serves partitions round-robin, and waits for appends."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from eventlib.errors import DamagedRecord
from eventlib.log.base import Reader, TopicPartition
from eventlib.model.record import Record
from eventlib.model.topic import Topic

MOST_DEFERRED = 100
"""How many polls may return other partitions' records before damage is raised anyway."""


class Source(Protocol):
    """The interface that a reader requires of its log."""

    waiting: "Waiting"

    async def refresh(self) -> None:
        """Load what other processes have appended."""

    def known_end(self, partition: TopicPartition) -> int:
        """Return the end offset, as of the last refresh or append."""

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""

    async def log_start(self, topic: str, partition: int) -> int:
        """See `Log.log_start`."""

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`: an answer shorter than `limit` ends at the partition's end, or before damage."""


class Waiting:
    """The readers that are waiting for an append."""

    def __init__(self, begun: Callable[[], None] = lambda: None) -> None:
        self.readers = set[LogReader]()
        self._begun = begun

    def add(self, reader: "LogReader") -> None:
        """Register a waiting reader."""
        self.readers.add(reader)
        self._begun()

    def appended(self, partitions: Collection[TopicPartition]) -> None:
        """Wake the readers that have not read all of these partitions."""
        for reader in [*self.readers]:
            if reader.has_more(partitions):
                reader.look()

    def look_all(self) -> None:
        """Wake every waiting reader."""
        for reader in [*self.readers]:
            reader.look()


class _Taken(NamedTuple):
    """Records of a partition that a poll has read and not yet returned."""

    partition: TopicPartition
    offset: int
    records: list[Record]
    after: int


class LogReader(Reader):
    """Reads several partitions round-robin. Between polls it holds positions only: no records, no transaction."""

    def __init__(self, source: Source, positions: Mapping[TopicPartition, int]) -> None:
        self._source = source
        self._positions = dict(positions)
        self._woken = False
        self._closed = False
        self._look: asyncio.Future[None] | None = None
        self._damaged: dict[TopicPartition, DamagedRecord] = {}
        self._deferred = 0
        self._lost: dict[TopicPartition, tuple[int, int]] = {}
        self._behind = set[TopicPartition]()

    async def poll(self, limit: int, timeout_s: float | None = None) -> list[Record]:
        """See `Reader.poll`."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while True:
            await self._source.refresh()
            taken = await self._take(limit)
            self._raise_damage(taken)
            if sum(len(each.records) for each in taken) >= limit:
                await asyncio.sleep(0)  # a reader with a backlog would otherwise starve other coroutines
            records = self._passed(taken)
            if records or self._woken or self._closed or (deadline is not None and loop.time() >= deadline):
                self._woken = False
                return records
            await self._wait(deadline)

    def wake(self) -> None:
        """See `Reader.wake`."""
        self._woken = True
        self.look()

    def look(self) -> None:
        """Make a waiting poll check for records again."""
        if self._look is not None and not self._look.done():
            self._look.set_result(None)

    def has_more(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether one of these partitions has records that this reader has not read."""
        end_of = self._source.known_end
        return any(self._positions[each] < end_of(each) for each in self._positions.keys() & partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `Reader.seek`."""
        self._positions[partition] = offset
        self._damaged.pop(partition, None)
        self._behind.discard(partition)
        if offset < self._source.known_end(partition):
            self.look()

    def position(self, partition: TopicPartition) -> int:
        """See `Reader.position`."""
        return self._positions[partition]

    def take_lost(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `Reader.take_lost`."""
        lost, self._lost = self._lost, {}
        return lost

    async def ends(self) -> Mapping[TopicPartition, int]:
        """See `Reader.ends`."""
        await self._source.refresh()
        return {partition: self._source.known_end(partition) for partition in self._positions}

    async def close(self) -> None:
        """See `Reader.close`."""
        self._closed = True
        self.look()

    async def _take(self, limit: int) -> list[_Taken]:
        end_of, damaged = self._source.known_end, self._damaged
        ready, ahead = list[TopicPartition](), list[TopicPartition]()
        for partition, offset in self._positions.items():
            end = end_of(partition)
            if offset < end and partition not in damaged:
                ready.append(partition)
            elif offset > end and partition not in self._behind:
                ahead.append(partition)
        if ahead:
            await self._note_lost_ends(ahead)
        taken, room = list[_Taken](), limit
        for turn, partition in enumerate(ready):
            if room <= 0:
                break
            try:
                each = await self._take_from(partition, -(-room // (len(ready) - turn)))
            except DamagedRecord as error:
                damaged[partition] = error  # not read until the reader seeks past it
                continue
            room -= len(each.records)
            taken.append(each)
        return taken

    async def _note_lost_ends(self, ahead: Collection[TopicPartition]) -> None:
        """Note positions after the end: the log lost its end, or the topic is another one."""
        # A read finds what other processes have appended since the last refresh, which a file has once an iteration.
        await asyncio.sleep(0)
        await self._source.refresh()
        for partition in ahead:
            offset, end = self._positions[partition], self._source.known_end(partition)
            if offset > end:
                self._behind.add(partition)
                self._note_loss(partition, offset, end)

    def _raise_damage(self, taken: list[_Taken]) -> None:
        """Raise damage when no other records can be returned, or after too many deferrals."""
        if not self._damaged:
            return
        self._deferred += 1
        if self._deferred > MOST_DEFERRED or not any(each.records for each in taken):
            self._deferred = 0
            raise next(iter(self._damaged.values()))

    async def _take_from(self, partition: TopicPartition, share: int) -> _Taken:
        offset, end = self._positions[partition], self._source.known_end(partition)
        records = await self._source.read(*partition, offset, share)
        if not records or records[0].offset != offset:
            await self._look_before_the_start(partition, offset)
        last = records[-1].offset + 1 if records else offset
        if len(records) == share or last >= end:
            return _Taken(partition, offset, records, last)
        # `Log.read`: fewer than requested before the end; so damage comes next, or no record does.
        if records and await self._is_damaged(partition, last):
            return _Taken(partition, offset, records, last)
        return _Taken(partition, offset, records, end)

    async def _look_before_the_start(self, partition: TopicPartition, offset: int) -> None:
        """Note a position before the log's start; compaction leaves gaps, and loses nothing."""
        topic = (await self._source.topics()).get(partition[0])
        if topic is not None and not topic.compacted:
            start = await self._source.log_start(*partition)
            if start > offset:
                self._note_loss(partition, offset, start)

    def _note_loss(self, partition: TopicPartition, offset: int, to: int) -> None:
        self._lost[partition] = offset, to
        self._woken = True  # the poll returns, once

    async def _is_damaged(self, partition: TopicPartition, offset: int) -> bool:
        try:
            await self._source.read(*partition, offset, 1)
        except DamagedRecord:
            return True
        return False

    def _passed(self, taken: list[_Taken]) -> list[Record]:
        """Advance the positions past what is being returned; a position never runs ahead of that."""
        found = list[Record]()
        for partition, offset, records, after in taken:
            if self._positions[partition] != offset:
                continue  # a seek happened during this read
            found += records
            # To the back of the queue: with less room than ready partitions, the next poll begins with the others.
            del self._positions[partition]
            self._positions[partition] = after
        return found

    async def _wait(self, deadline: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._look = loop.create_future()
        self._source.waiting.add(self)
        timer = None if deadline is None else loop.call_at(deadline, self.look)
        try:
            await self._look
        finally:
            self._source.waiting.readers.discard(self)
            self._look = None
            if timer is not None:
                timer.cancel()
