"""Copies every partition of a log, and compares what has arrived."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from eventlib.copying.report import Digest, PartitionReport, Report
from eventlib.copying.source import services_on
from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.log.kafka.incoming import Incoming
from eventlib.log.port import Record, TopicPartition
from eventlib.log.sqlite import SqliteLog
from eventlib.registry.topics import SCHEMAS
from eventlib.topic import Topic

T = TypeVar("T")

_CHUNK = 2_000
_AT_ONCE = 8
_ROUNDS = 5

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many records of it are done, and how many offsets there are."""


class Copying:
    """One log's way into another.

    Offsets stay as they are, since journals, positions and parked records name them. Only the toolkit's own compacted
    topics are written without the gaps that compaction has left: nobody names an offset in them.
    Compacted topics are written anew at each attempt; all others go on where the last attempt was broken off.
    """

    def __init__(self, source: SqliteLog, target: Incoming, topics: Sequence[Topic], progress: Progress) -> None:
        self._source = source
        self._target = target
        self._topics = topics
        self._progress = progress
        self._places = [(topic.name, partition) for topic in topics for partition in range(topic.partitions)]
        changelogs = {f"{service}.changelog" for service in services_on({topic.name: topic for topic in topics})}
        self._dense = {SCHEMAS.name, *changelogs, *(topic.latest_topic.name for topic in topics if topic.latest)}

    async def run(self, retire_with: str | None) -> Report:
        """Copy and compare until nothing is left, and open the copy for use; the source is retired with a reason, if any.

        Raises: WiringError when the source was retired for another reason; LogCorrupt when the copy is not the same;
        LogUnavailable, and then the next attempt goes on.
        """
        before = await self._source.retired()
        if before is not None and before != retire_with:
            raise WiringError(f"{self._source.url} takes nothing more, since {before}: go on with that log")
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
        raise LogUnavailable(f"others write to {self._source.url} without a pause: stop who publishes to it, and go on")

    async def _ends(self) -> Mapping[TopicPartition, int]:
        return {place: await self._source.end(*place) for place in self._places}

    async def _empty_compacted(self) -> None:
        """Let no compacted topic have anything: its source may have been compacted since."""
        compacted = [topic for topic in self._topics if topic.compacted]
        ends = [[await self._target.end((t.name, p)) for p in range(t.partitions)] for t in compacted]
        await self._target.empty([topic.name for topic, found in zip(compacted, ends, strict=True) if any(found)])

    async def _each(
        self, what: str, ends: Mapping[TopicPartition, int], act: Callable[[TopicPartition, int], Awaitable[T]]
    ) -> list[T]:
        """Do something with every partition up to its end, several at a time, and tell how far it is."""
        turn, done, total = asyncio.Semaphore(_AT_ONCE), 0, sum(ends.values())

        async def one(place: TopicPartition) -> T:
            nonlocal done
            async with turn:
                found = await act(place, ends[place])
            done += ends[place]
            self._progress(what, done, total)
            return found

        running = [asyncio.create_task(one(place)) for place in self._places]
        try:
            return await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()

    async def _copy(self, place: TopicPartition, end: int) -> None:
        if place[0] in self._dense:
            await self._copy_densely(place, end)
        else:
            await self._copy_exactly(place, end)

    async def _copy_densely(self, place: TopicPartition, end: int) -> None:
        """Copy all records to a partition that is empty, and let their offsets follow each other."""
        written = 0
        async for records in self._read(place, 0, end):
            await self._target.put([record._replace(offset=written + i) for i, record in enumerate(records)])
            written += len(records)

    async def _copy_exactly(self, place: TopicPartition, end: int) -> None:
        """Copy what comes after the target's end, at the source's offsets."""
        position = await self._target.end(place)
        async for records in self._read(place, position, end):
            for run in _runs(records):
                if run[0].offset > position:
                    await self._target.pass_over(place, run[0].offset)
                await self._target.put(run)
                position = run[-1].offset + 1
        if position < end:
            await self._target.pass_over(place, end)

    async def _compare(self, place: TopicPartition, end: int) -> PartitionReport:
        """Read a partition on both sides. Raises: LogCorrupt when they differ."""
        digest = Digest(offsets=place[0] not in self._dense)
        there = 0
        async for records in self._read(place, 0, end):
            arrived = await self._target.read(place, there, len(records))
            differs = digest.first_difference(records, arrived)
            if differs is not None:
                raise self._not_the_same(place, records[min(differs, len(records) - 1)].offset)
            digest.add(records)
            there = arrived[-1].offset + 1
        more = await self._target.read(place, there, 1)
        if more or (place[0] not in self._dense and await self._target.end(place) != end):
            raise self._not_the_same(place, end)
        return PartitionReport(*place, digest.records, end, digest.hexdigest())

    async def _read(self, place: TopicPartition, offset: int, end: int) -> AsyncIterator[list[Record]]:
        """Yield the source's records from an offset up to before an end."""
        while offset < end:
            records = [r for r in await self._source.read(*place, offset, _CHUNK) if r.offset < end]
            if not records:
                return
            yield records
            offset = records[-1].offset + 1

    def _not_the_same(self, place: TopicPartition, offset: int) -> LogCorrupt:
        return LogCorrupt(
            f"{place[0]}/{place[1]} is not the same in {self._source.url} and {self._target.url} from offset {offset} on: "
            "copy from scratch (--from-scratch)"
        )


def _runs(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield records in runs whose offsets follow each other."""
    run = list[Record]()
    for record in records:
        if run and record.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(record)
    if run:
        yield run
