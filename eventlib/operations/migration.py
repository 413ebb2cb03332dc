"""Copies a log to another backend: history, states and in-flight sagas, at the same offsets, compared record by record."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.import_log import ImportLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.held_log import services_on
from eventlib.registry.records import SCHEMAS


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition, equal on both sides: how many records, the next offset, and a hash of all records."""

    topic: str
    partition: int
    records: int
    end: int
    hash: str


@dataclass(frozen=True, slots=True)
class Report:
    """A copy: its partitions, and whether its source is now closed to writes.

    A copy that was complete when its last step was interrupted is not compared again: it has no partitions here.
    """

    partitions: tuple[PartitionReport, ...]
    source_retired: bool


class Digest:
    """A hash over a partition's records in order, with their offsets where these must be equal."""

    def __init__(self, *, offsets: bool) -> None:
        self._hash = blake2b(digest_size=16)
        self._first = 2 if offsets else 3  # of Record's fields: the topic and the partition are known
        self.records = 0

    def first_difference(self, records: list[Record], others: list[Record]) -> int | None:
        """Return the index of the first record that differs on the other side, None when none does."""
        first, both = self._first, min(len(records), len(others))
        same = (a.astuple()[first:] == b.astuple()[first:] for a, b in zip(records, others, strict=False))
        found = next((index for index, each in enumerate(same) if not each), both)
        return None if found == len(records) == len(others) else found

    def add(self, records: list[Record]) -> None:
        """Add records to the hash."""
        self._hash.update(repr([record.astuple()[self._first :] for record in records]).encode())
        self.records += len(records)

    def hexdigest(self) -> str:
        """Return the hash of the added records."""
        return self._hash.hexdigest()


T = TypeVar("T")

_CHUNK = 2_000
_AT_ONCE = 8
_ROUNDS = 5

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many of its records are done, and how many offsets there are."""


class Copying:
    """Copies one log into another.

    Offsets do not change, since journals, positions and parked records refer to them. Only the toolkit's own compacted
    topics are written without the gaps that compaction has left: nothing refers to offsets in them.
    Compacted topics are rewritten at each attempt; all others continue where the last attempt was interrupted.
    """

    def __init__(self, source: SqliteLog, target: ImportLog, topics: Sequence[Topic], progress: Progress) -> None:
        self._source = source
        self._target = target
        self._topics = topics
        self._progress = progress
        self._topic_partitions = [(topic.name, partition) for topic in topics for partition in range(topic.partitions)]
        changelogs = {f"{service}.changelog" for service in services_on({topic.name: topic for topic in topics})}
        self._dense = {SCHEMAS.name, *changelogs, *(topic.latest_topic.name for topic in topics if topic.latest)}

    async def run(self, retire_with: str | None) -> Report:
        """Copy and compare until nothing is left, and open the copy for use; `retire_with` closes the source with a reason.

        Raises: WiringError when the source was closed for another reason; LogCorrupt when the copy differs; LogUnavailable,
        and then the next attempt continues.
        """
        before = await self._source.retired()
        if before is not None and before != retire_with:
            raise WiringError(f"{self._source.url} is closed to writes, since {before}: continue with that log")
        whole = await self._target.begin(self._topics, self._source.log_id)
        partitions = [] if whole else await self._copy_until_still(retire_with)
        await self._target.finish()
        return Report(tuple(partitions), source_retired=retire_with is not None)

    async def _copy_until_still(self, retire_with: str | None) -> list[PartitionReport]:
        for _ in range(_ROUNDS):
            await self._empty_compacted()
            ends = await self._ends()
            await self._each("copying", ends, self._copy)
            found = await self._each("comparing", ends, self._compare)
            if retire_with is not None:
                await self._source.retire(retire_with)
            if await self._ends() == ends:
                return found
        raise LogUnavailable(
            f"external publishers write to {self._source.url} without a pause: stop them, and run this again"
        )

    async def _ends(self) -> Mapping[TopicPartition, int]:
        return {topic_partition: await self._source.end(*topic_partition) for topic_partition in self._topic_partitions}

    async def _empty_compacted(self) -> None:
        """Empty all compacted topics of the target: their sources may have been compacted since."""
        compacted = [topic for topic in self._topics if topic.compacted]
        ends = [[await self._target.end((t.name, p)) for p in range(t.partitions)] for t in compacted]
        await self._target.empty([topic.name for topic, found in zip(compacted, ends, strict=True) if any(found)])

    async def _each(
        self, what: str, ends: Mapping[TopicPartition, int], act: Callable[[TopicPartition, int], Awaitable[T]]
    ) -> list[T]:
        """Process every partition up to its end, several at a time, and report progress."""
        turn, done, total = asyncio.Semaphore(_AT_ONCE), 0, sum(ends.values())

        async def one(topic_partition: TopicPartition) -> T:
            nonlocal done
            async with turn:
                found = await act(topic_partition, ends[topic_partition])
            done += ends[topic_partition]
            self._progress(what, done, total)
            return found

        running = [asyncio.create_task(one(topic_partition)) for topic_partition in self._topic_partitions]
        try:
            return await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def _copy(self, topic_partition: TopicPartition, end: int) -> None:
        if topic_partition[0] in self._dense:
            await self._copy_densely(topic_partition, end)
        else:
            await self._copy_exactly(topic_partition, end)

    async def _copy_densely(self, topic_partition: TopicPartition, end: int) -> None:
        """Copy all records to an empty partition, with consecutive offsets."""
        written = 0
        async for records in self._read(topic_partition, 0, end):
            await self._target.put([record.placed(written + i) for i, record in enumerate(records)])
            written += len(records)

    async def _copy_exactly(self, topic_partition: TopicPartition, end: int) -> None:
        """Copy the records after the target's end, at the source's offsets."""
        position = await self._target.end(topic_partition)
        async for records in self._read(topic_partition, position, end):
            for run in _runs(records):
                if run[0].offset > position:
                    await self._target.pass_over(topic_partition, run[0].offset)
                await self._target.put(run)
                position = run[-1].offset + 1
        if position < end:
            await self._target.pass_over(topic_partition, end)

    async def _compare(self, topic_partition: TopicPartition, end: int) -> PartitionReport:
        """Read a partition on both sides. Raises: LogCorrupt when they differ."""
        digest = Digest(offsets=topic_partition[0] not in self._dense)
        there = 0
        async for records in self._read(topic_partition, 0, end):
            arrived = await self._target.read(topic_partition, there, len(records))
            differs = digest.first_difference(records, arrived)
            if differs is not None:
                raise self._not_the_same(topic_partition, records[min(differs, len(records) - 1)].offset)
            digest.add(records)
            there = arrived[-1].offset + 1
        more = await self._target.read(topic_partition, there, 1)
        if more or (topic_partition[0] not in self._dense and await self._target.end(topic_partition) != end):
            raise self._not_the_same(topic_partition, end)
        return PartitionReport(*topic_partition, digest.records, end, digest.hexdigest())

    async def _read(self, topic_partition: TopicPartition, offset: int, end: int) -> AsyncIterator[list[Record]]:
        """Yield the source's records from an offset up to before an end."""
        while offset < end:
            records = [r for r in await self._source.read(*topic_partition, offset, _CHUNK) if r.offset < end]
            if not records:
                return
            yield records
            offset = records[-1].offset + 1

    def _not_the_same(self, topic_partition: TopicPartition, offset: int) -> LogCorrupt:
        return LogCorrupt(
            f"{topic_partition[0]}/{topic_partition[1]} differs in {self._source.url} and {self._target.url} from offset {offset} on: "
            "copy from scratch (--from-scratch)"
        )


def _runs(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield records in runs of consecutive offsets."""
    run = list[Record]()
    for record in records:
        if run and record.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(record)
    if run:
        yield run
