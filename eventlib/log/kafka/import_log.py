"""A Kafka log that is the target of an import: records are copied at the same offsets."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from eventlib.errors import LogCorrupt, LogUnavailable, TopicMismatch, WiringError
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.append_batcher import Appends
from eventlib.log.kafka.client import Cluster, starting
from eventlib.log.kafka.failures import Fenced
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.topic_configs import DECLARATIONS, INCOMING, OWNERS
from eventlib.log.kafka.topics import Topics
from eventlib.log.rules import BESIDE_THE_VALUE
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

_BATCH_BYTES = 1_000_000
_MOST_AT_ONCE = 1_000_000
_LANE = "write 0"
_LOOK_S = 0.005
_OWN = (OWNERS.name, DECLARATIONS.name)


class ImportLog:
    """A log that is closed to services until the import is complete: until then they fail at startup.

    Gaps between records are filled with aborted transactions, which consume offsets without visible records. So all
    offsets equal those of the source. Guarantee: records are stored as given; after a crash the partitions' ends show
    the progress; of two concurrent copies to the same log, one stops with an error.
    """

    def __init__(self, cluster: Cluster, url: str) -> None:
        self.url = url
        self._cluster = cluster
        self._point_reads = PointReads(cluster, Written())
        self._topics = Topics(cluster, self._point_reads, Appends(cluster, Written(), self._largest_batch))
        self._topics.receives = True
        self._declared: Mapping[str, Topic] = {}
        self._writer = Producer(cluster, _LANE, self._largest_batch, None)
        self._passing = asyncio.Lock()  # a producer has one transaction at a time
        options = cluster.options
        self._passer = Producer(cluster, _LANE, self._largest_batch, f"{options.writers}copy")

    @classmethod
    async def open(cls, url: str) -> Self:
        """Open the target. Raises: WiringError, LogUnavailable, LogDenied."""
        async with starting(url) as cluster:
            log = cls(cluster, url)
            await log._topics.load()
        return log

    async def begin(self, topics: Sequence[Topic], source: str) -> bool:
        """Create its topics, or resume an interrupted copy of the same source; return whether it was already complete.

        Raises: WiringError when it is in use, or a copy of another log; TopicMismatch.
        """
        if INCOMING.name not in self._cluster.topics:
            self._refuse_used(topics)
            await self._topics.create_keeping_all([INCOMING])
        self._declared = {topic.name: topic for topic in topics}
        await self._passer.start()
        await self._writer.start()
        notes = await self._notes(source)
        await self._topics.create_keeping_all([topic for topic in topics if topic.name not in self._cluster.topics])
        for topic in topics:
            if len(self._cluster.topics[topic.name]) != topic.partitions:
                raise TopicMismatch(f"topic {topic.name!r} has other partitions on {self.url}: copy it from scratch")
        return any(note.get("whole") for note in notes)

    async def discard(self, topics: Sequence[Topic]) -> None:
        """Delete an unfinished copy of these topics; a complete log, or no copy, is left alone."""
        if INCOMING.name in self._cluster.topics:
            await self._topics.delete([*(topic.name for topic in topics), *_OWN])
            await self._topics.delete([INCOMING.name])

    async def empty(self, names: Sequence[str]) -> None:
        """Empty topics, as if nothing had been written to them."""
        if not names:
            return
        await self._topics.delete(names)
        for name in names:
            self._point_reads.forget(name)
        await self._topics.create_keeping_all([self._declared[name] for name in names])
        await self._writer.start()

    async def end(self, topic_partition: TopicPartition) -> int:
        """Return the end offset of what a partition has so far."""
        return (await self._point_reads.ends([topic_partition]))[topic_partition]

    async def read(self, topic_partition: TopicPartition, offset: int, limit: int) -> list[Record]:
        """Return the records copied so far, as `Log.read` does."""
        return await self._point_reads.read(topic_partition, offset, limit)

    async def put(self, records: Sequence[Record]) -> None:
        """Append records of one partition, contiguous and starting at its end.

        Raises: LogCorrupt when they got other offsets; LogUnavailable, and then its end shows what was written.
        """
        offsets = await self._writer.produce(records)
        if offsets[-1] != records[-1].offset:  # they are contiguous, so that whatever came between them shows here
            raise self._disturbed(records[0].topic_partition, records[0].offset)

    async def pass_over(self, topic_partition: TopicPartition, until: int) -> None:
        """Advance a partition's end to an offset, without readable records in between. Raises: as `put`."""
        position = await self.end(topic_partition)
        while position < until:
            step = min(until - position, _MOST_AT_ONCE)
            async with self._passing:
                await self._pass_over(topic_partition, step)
            position += step
            await self._reached(topic_partition, position)

    async def finish(self) -> None:
        """Open it as a normal log, with its declared retention and compaction. Raises: LogUnavailable."""
        await self._note({"whole": True})
        await self._topics.create(self._declared.values())
        await self._topics.delete([INCOMING.name])

    async def close(self) -> None:
        """Close its connections."""
        await self._cluster.close()

    async def _pass_over(self, topic_partition: TopicPartition, offsets: int) -> None:
        try:
            await self._passer.pass_over(topic_partition, offsets)
        except Fenced as error:
            raise self._another_copier(error) from error

    async def _reached(self, topic_partition: TopicPartition, end: int) -> None:
        """Wait for the end of an aborted transaction: it comes after the answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._cluster.options.append_timeout_s
        while (reached := await self.end(topic_partition)) != end:
            if reached > end:
                raise self._disturbed(topic_partition, end)
            if loop.time() > deadline:
                raise LogUnavailable(
                    f"an aborted transaction on {topic_partition[0]}/{topic_partition[1]} of {self.url} does not complete"
                )
            await asyncio.sleep(_LOOK_S)

    def _disturbed(self, topic_partition: TopicPartition, offset: int) -> LogCorrupt:
        return LogCorrupt(
            f"another producer has written to {topic_partition[0]}/{topic_partition[1]} of {self.url}, at offset {offset}: "
            "stop other producers, and copy from scratch (--from-scratch)"
        )

    def _refuse_used(self, topics: Sequence[Topic]) -> None:
        used = sorted({*_OWN, *(topic.name for topic in topics)} & self._cluster.topics.keys())
        if used:
            raise WiringError(
                f"{self.url} is already used as a log (it has {', '.join(used[:3])}): copy to an empty one; "
                "?prefix=NAME. in the URL separates several logs on one cluster"
            )

    async def _notes(self, source: str) -> list[dict[str, Any]]:
        """Return this copy's metadata, which begins with its source. Raises: WiringError when it has another source."""
        if not await self._point_reads.read((INCOMING.name, 0), 0, 1):
            await self._note({"source": source})
        records = await self._point_reads.read((INCOMING.name, 0), 0, 100)
        notes: list[dict[str, Any]] = [json.loads(record.value or b"{}") for record in records]
        if any(note.get("source", source) != source for note in notes):
            raise WiringError(f"{self.url} is an unfinished copy of another log: discard it with --from-scratch")
        return notes

    async def _note(self, note: Mapping[str, Any]) -> None:
        """Append metadata; a later copier fences this off. Raises: LogUnavailable."""
        record = Record(INCOMING.name, 0, -1, now_ms(), None, json.dumps(note).encode())
        try:
            await self._passer.commit([record])
        except Fenced as error:
            raise self._another_copier(error) from error

    def _another_copier(self, error: Fenced) -> LogUnavailable:
        return LogUnavailable(f"another copy to {self.url} has started ({error}): let one of them finish")

    def _largest_batch(self, topic: str) -> int:
        declared = self._declared.get(topic)
        return _BATCH_BYTES if declared is None else min(_BATCH_BYTES, declared.max_event_bytes + BESIDE_THE_VALUE)
