"""Readers of a Kafka log: they serve partitions round-robin, and read ahead within bounds."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from eventlib.errors import EventlibError, LogUnavailable
from eventlib.ground.tasks import cancelled
from eventlib.log.base import Reader, TopicPartition
from eventlib.log.kafka.failures import Code, Transient, failure
from eventlib.log.kafka.feed import Feed
from eventlib.log.kafka.partition_fetcher import EARLIEST, LATEST, Fetched, FetchSpec, Slot, fetch, offsets_at
from eventlib.log.reader import MOST_DEFERRED
from eventlib.model.record import Record

_PAUSE_S = 0.1


class KafkaReader(Reader):
    """See `Reader`. Waits while the brokers are unreachable, unless a poll's timeout has passed."""

    def __init__(self, feed: Feed, positions: Mapping[TopicPartition, int]) -> None:
        self._feed = feed
        self.slots = {
            topic_partition: Slot(self, topic_partition, offset) for topic_partition, offset in positions.items()
        }
        self._something = asyncio.Event()
        self._catching_up: asyncio.Task[None] | None = None
        self._error: EventlibError | None = None
        self._trouble: tuple[float, Exception] | None = None
        self._woken = False
        self._was_full = False
        self._closed = False
        self._deferred = 0
        self._lost: dict[TopicPartition, tuple[int, int]] = {}
        self._past_ends = set[TopicPartition]()
        feed.opened(self)

    async def poll(self, limit: int, timeout_s: float | None = None) -> list[Record]:
        """See `Reader.poll`."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while True:
            if self._was_full:
                self._was_full = False
                await asyncio.sleep(0)  # a reader with a backlog would otherwise starve other coroutines
            self._something.clear()
            records = self._take(limit)
            self._catch_up()
            if records or self._woken or self._closed:
                self._woken = False
                self._was_full = len(records) >= limit
                return records
            late = deadline is not None and loop.time() >= deadline
            self._raise(late=late)
            if late and self._is_current():
                await asyncio.sleep(0)  # polling without a wait would otherwise starve the fetches
                return records
            # Records known to exist are awaited even after the timeout: they are in flight.
            await self._wait(None if late else deadline)

    def wake(self) -> None:
        """See `Reader.wake`."""
        self._woken = True
        self.look()

    def look(self) -> None:
        """Make a waiting poll check again."""
        self._something.set()

    def room(self) -> int:
        """Return how many bytes each partition may read ahead."""
        return self._feed.room()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `Reader.seek`; a short skip discards buffered and in-flight records instead of fetching again."""
        if self.slots[partition].go_past(offset):
            return
        self._past_ends.discard(partition)
        self._leave(self.slots[partition])
        self.slots[partition] = Slot(self, partition, offset)
        self.look()

    def position(self, partition: TopicPartition) -> int:
        """See `Reader.position`."""
        return self.slots[partition].position

    def take_lost(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `Reader.take_lost`."""
        lost, self._lost = self._lost, {}
        return lost

    async def ends(self) -> Mapping[TopicPartition, int]:
        """See `Reader.ends`."""
        return await self._feed.point_reads.ends(self.slots)

    async def close(self) -> None:
        """See `Reader.close`."""
        self._closed = True
        self._feed.closed(self)
        for slot in self.slots.values():
            self._leave(slot)
        await cancelled(self._catching_up)
        self.look()

    def fail(self, error: EventlibError) -> None:
        """Fail the waiting poll."""
        self._error = error
        if self._catching_up is not None:
            self._catching_up.cancel()
        self.look()

    def _take(self, limit: int) -> list[Record]:
        ready = [slot for slot in self.slots.values() if slot.is_ready and not slot.is_refused]
        refused = [slot for slot in self.slots.values() if slot.is_refused]
        if refused and (not ready or self._deferred >= MOST_DEFERRED):
            self._deferred = 0
            refused[0].take(1)  # raises
        self._deferred += bool(refused)
        found = list[Record]()
        for turn, slot in enumerate(ready):
            room = limit - len(found)
            if room <= 0:
                break
            found += slot.take(-(-room // (len(ready) - turn)))
            # To the back of the queue: with less room than ready partitions, the next poll begins with the others.
            self.slots[slot.topic_partition] = self.slots.pop(slot.topic_partition)
        return found

    def _is_current(self) -> bool:
        """Whether everything up to the ends known at the call, and this process's own writes, is here."""
        end = self._feed.written.end
        return all(
            slot.tail is not None and slot.fetched >= end(topic_partition)
            for topic_partition, slot in self.slots.items()
        )

    def _raise(self, *, late: bool) -> None:
        if self._error is not None:
            raise self._error
        now = asyncio.get_running_loop().time()
        if late and self._trouble is not None and now - self._trouble[0] > self._feed.cluster.options.request_timeout_s:
            raise LogUnavailable(f"the log cannot be read now: {self._trouble[1]}")

    async def _wait(self, deadline: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._something.wait()

    def _leave(self, slot: Slot) -> None:
        if slot.tail is not None:
            slot.tail.leave(slot)

    # --- catching up

    def _behind(self) -> list[Slot]:
        return [slot for slot in self.slots.values() if slot.tail is None and slot.has_room]

    def _catch_up(self) -> None:
        if self._catching_up is None and not self._closed and self._error is None and self._behind():
            self._catching_up = asyncio.create_task(self._bring_all(), name="kafka reader")

    async def _bring_all(self) -> None:
        try:
            while behind := self._behind():
                try:
                    await self._bring(behind)
                    self._trouble = None
                except (Transient, LogUnavailable) as error:
                    await self._recover(error)
        except Exception as error:  # noqa: BLE001  any error must reach the caller of `poll`
            self._error = error if isinstance(error, EventlibError) else EventlibError(f"a reader failed: {error!r}")
        finally:
            self._catching_up = None
            self.look()

    async def _recover(self, error: Exception) -> None:
        if self._trouble is None:
            self._trouble = (asyncio.get_running_loop().time(), error)
        with suppress(LogUnavailable):
            await self._feed.cluster.refresh()
        self.look()
        await asyncio.sleep(_PAUSE_S)

    async def _bring(self, behind: Sequence[Slot]) -> None:
        cluster, most = self._feed.cluster, self.room()
        slots = {slot.topic_partition: slot for slot in behind}
        asked = [
            fetch(
                cluster,
                node,
                [
                    FetchSpec(topic_partition, slots[topic_partition].fetched, most)
                    for topic_partition in topic_partitions
                ],
            )
            for node, topic_partitions in cluster.by_leader(slots).items()
        ]
        for answers in await asyncio.gather(*asked):
            for each in answers:
                await self._took(slots[each.topic_partition], each)

    async def _took(self, slot: Slot, each: Fetched) -> None:
        if self.slots[slot.topic_partition] is not slot:
            return  # a seek happened meanwhile
        if each.code == Code.OFFSET_OUT_OF_RANGE:
            await self._find(slot)
            return
        if each.code:
            raise failure(each.code, f"reading {slot.topic_partition[0]}/{slot.topic_partition[1]}")
        if each.chunk is not None:
            slot.deliver(each.chunk)
        elif slot.fetched < each.end:
            await self._over_gap(slot, each.end)
        if slot.fetched >= each.end and self._feed.follow(slot):
            self.look()

    async def _over_gap(self, slot: Slot, end: int) -> None:
        """Skip to the end if nothing precedes it; fetched alone, so that other partitions do not use up the response."""
        node = self._feed.cluster.leader(slot.topic_partition)
        (alone,) = await fetch(self._feed.cluster, node, [FetchSpec(slot.topic_partition, slot.fetched, self.room())])
        if alone.code == Code.NONE and alone.chunk is None:
            slot.skip_to(end)

    async def _find(self, slot: Slot) -> None:
        """Move to an offset that exists: the position was dropped by retention, or the log ends before it."""
        if slot.is_ready:  # what was read before comes first
            await asyncio.sleep(_PAUSE_S)
            return
        place = slot.topic_partition
        start, end = [
            (await offsets_at(self._feed.cluster, [place], time, committed=False))[place] for time in (EARLIEST, LATEST)
        ]
        if slot.fetched < start:
            self._note_loss(place, slot.fetched, start)
            slot.skip_to(start)
        elif slot.fetched > end and place not in self._past_ends:
            self._past_ends.add(place)
            self._note_loss(place, slot.fetched, end)
        slot.fetched = max(start, min(slot.fetched, end))  # the offset may exist by now

    def _note_loss(self, place: TopicPartition, offset: int, to: int) -> None:
        self._lost[place] = offset, to
        self._woken = True  # the poll returns, once
        self.look()
