"""Reads partitions without following them: for restore, inspection, and their start and end offsets."""

import asyncio
from collections.abc import Iterable, Mapping, MutableMapping

from eventlib.errors import DamagedRecord, LogUnavailable
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.chunk import Chunk
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code, failure
from eventlib.log.kafka.partition_fetcher import EARLIEST, LATEST, Fetched, FetchSpec, fetch, offsets_at
from eventlib.model.record import Record

_MOST_BYTES = 1_000_000
_BYTES_A_RECORD = 1_000
_FEWEST_BYTES = 16_000
_KEPT_CHUNKS = 8
_LONGEST_PAUSE_S = 0.02


class Written:
    """The end of this process's own writes to each partition.

    A commit is acknowledged before its records are readable, so readers must know to wait for them.
    """

    def __init__(self) -> None:
        self._ends = dict[TopicPartition, int]()

    def end(self, topic_partition: TopicPartition) -> int:
        """Return the offset after this process's last write."""
        return self._ends.get(topic_partition, 0)

    def wrote(self, records: Iterable[Record], offsets: Iterable[int]) -> None:
        """Record an append."""
        ends = self._ends
        for record, offset in zip(records, offsets, strict=True):
            topic_partition = record.topic_partition
            if offset >= ends.get(topic_partition, 0):
                ends[topic_partition] = offset + 1

    def forget(self, topic: str) -> None:
        """Forget a deleted topic: a new one with its name begins at 0."""
        self._ends = {
            topic_partition: end for topic_partition, end in self._ends.items() if topic_partition[0] != topic
        }


class PointReads:
    """Reads at any offset; surplus bytes of a fetch are kept for the next sequential read."""

    def __init__(self, cluster: Cluster, written: Written) -> None:
        self._cluster = cluster
        self._written = written
        self._kept = dict[TopicPartition, Chunk]()

    def forget(self, topic: str) -> None:
        """Forget a deleted topic."""
        self._written.forget(topic)
        self._kept = {
            topic_partition: chunk for topic_partition, chunk in self._kept.items() if topic_partition[0] != topic
        }

    async def read(self, topic_partition: TopicPartition, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        found = list[Record]()
        position = max(offset, 0)
        while len(found) < limit:
            chunk = self._kept.pop(topic_partition, None)
            if chunk is None or not chunk.first <= position < chunk.next:
                position, chunk = await self._chunk(topic_partition, position, limit - len(found))
                if chunk is None or (found and chunk.is_refused):
                    break
            records = [record for record in chunk.records if record.offset >= position][: limit - len(found)]
            found += records
            position = chunk.next
            if len(found) == limit and records and records[-1] is not chunk.records[-1]:
                self._keep(topic_partition, chunk)
        return found

    async def newest(
        self, topic_partition: TopicPartition, offset: int, kept: MutableMapping[bytes, bytes], kind: str | None
    ) -> int:
        """See `Log.newest`."""
        end = (await self.ends([topic_partition]))[topic_partition]
        while offset < end:
            offset, chunk = await self._chunk(topic_partition, offset, _MOST_BYTES)
            if chunk is None:
                break
            chunk.keep_newest(offset, kept, kind)
            offset = chunk.next
            await asyncio.sleep(0)  # other coroutines run between chunks
        return max(offset, end)

    async def ends(self, topic_partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return each partition's end, after everything committed and everything this process wrote."""
        found = await offsets_at(self._cluster, topic_partitions, LATEST)
        return {topic_partition: max(end, self._written.end(topic_partition)) for topic_partition, end in found.items()}

    async def decided_end(self, topic_partition: TopicPartition) -> int:
        """See `Log.decided_end`."""
        end = (await offsets_at(self._cluster, [topic_partition], LATEST, committed=False))[topic_partition]
        return await self._until_visible(topic_partition, end)

    async def start(self, topic_partition: TopicPartition) -> int:
        """See `Log.start`."""
        # The end first: appends made during this call must not lie before what it returns.
        end = (await self.ends([topic_partition]))[topic_partition]
        try:
            oldest = await self.read(topic_partition, await self.log_start(topic_partition), 1)
        except DamagedRecord as error:
            return error.offset
        return oldest[0].offset if oldest else end

    async def log_start(self, topic_partition: TopicPartition) -> int:
        """See `Log.log_start`."""
        return (await offsets_at(self._cluster, [topic_partition], EARLIEST))[topic_partition]

    async def at(self, topic_partition: TopicPartition, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        end = await self._until_visible(topic_partition, self._written.end(topic_partition))
        found = (await offsets_at(self._cluster, [topic_partition], max(timestamp_ms, 0)))[topic_partition]
        return found if found >= 0 else end

    async def _until_visible(self, topic_partition: TopicPartition, end: int) -> int:
        """Wait until everything before an offset is readable, and return the partition's end then.

        Raises: LogUnavailable when an open transaction blocks it.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._cluster.options.append_timeout_s, 0.001
        while (visible := (await offsets_at(self._cluster, [topic_partition], LATEST))[topic_partition]) < end:
            if loop.time() > deadline:
                raise LogUnavailable(
                    f"appends to {topic_partition[0]}/{topic_partition[1]} are not readable yet: another transaction there is open"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        return visible

    async def _chunk(self, topic_partition: TopicPartition, position: int, limit: int) -> tuple[int, Chunk | None]:
        """Return the next chunk with records, and its first offset to use; None at the end."""
        while True:
            answer = await self._cluster.persist(
                lambda: self._fetch(topic_partition, position, limit),  # noqa: B023  awaited before position changes
                self._cluster.options.request_timeout_s,
            )
            if answer.code == Code.OFFSET_OUT_OF_RANGE:
                start = await self.log_start(topic_partition)
                if start <= position:
                    return position, None
                position = start
            elif answer.chunk is not None and answer.chunk.next > position:
                return position, answer.chunk
            elif position < self._written.end(topic_partition):
                await self._until_visible(topic_partition, self._written.end(topic_partition))
            elif position < answer.end:
                position = answer.end  # only this partition was requested, so nothing is left in between
            else:
                return position, None

    async def _fetch(self, topic_partition: TopicPartition, position: int, limit: int) -> Fetched:
        most = min(max(limit * _BYTES_A_RECORD, _FEWEST_BYTES), _MOST_BYTES)
        (answer,) = await fetch(
            self._cluster, self._cluster.leader(topic_partition), [FetchSpec(topic_partition, position, most)]
        )
        if answer.code not in {Code.NONE, Code.OFFSET_OUT_OF_RANGE}:
            raise failure(answer.code, f"reading {topic_partition[0]}/{topic_partition[1]}")
        return answer

    def _keep(self, topic_partition: TopicPartition, chunk: Chunk) -> None:
        self._kept[topic_partition] = chunk
        while len(self._kept) > _KEPT_CHUNKS:
            self._kept.pop(next(iter(self._kept)))
