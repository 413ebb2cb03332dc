"""An in-memory log: for tests, simulations and first steps. It ends with its process."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from secrets import token_hex

from eventlib.errors import LogUnavailable
from eventlib.log.base import TOMBSTONES_KEPT, Claim, Log, Membership, Reader, TopicIdentity, TopicPartition
from eventlib.log.memory_owners import MemoryOwners
from eventlib.log.reader import LogReader, Waiting
from eventlib.log.rules import known, refuse_mismatch, refuse_unfit
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

_MILLISECOND = timedelta(milliseconds=1)


class Partition:
    """The remaining records of one partition, in offset order."""

    def __init__(self) -> None:
        self.records = list[Record]()
        self.end = 0
        self.clean_to = 0

    def forked(self) -> "Partition":
        """Return an independent partition with the same records."""
        made = Partition()
        made.records, made.end, made.clean_to = self.records.copy(), self.end, self.clean_to
        return made

    def append(self, record: Record) -> Record:
        """Append a record at the end, and return it with its offset."""
        placed = record.placed(self.end)
        self.records.append(placed)
        self.end += 1
        return placed

    def index(self, offset: int) -> int:
        """Return the index of the first remaining record at or after an offset."""
        return bisect_left(self.records, offset, key=lambda record: record.offset)

    def compact(self, now: int) -> None:
        """Keep the newest record of each key, and tombstones that are too young to drop."""
        newest = {record.key: record.offset for record in self.records}
        oldest_tombstone = now - TOMBSTONES_KEPT // _MILLISECOND
        self.records = [
            record
            for record in self.records
            if record.key is None
            or (
                newest[record.key] == record.offset
                and (
                    record.value is not None
                    or record.timestamp_ms >= oldest_tombstone
                    or record.offset >= self.clean_to
                )
            )
        ]
        self.clean_to = self.end

    def retain(self, topic: Topic, now: int) -> None:
        """Drop records beyond the topic's retention time or size."""
        drop = 0
        if topic.retention is not None:
            oldest = now - topic.retention // _MILLISECOND
            while drop < len(self.records) and self.records[drop].timestamp_ms < oldest:
                drop += 1
        if topic.retention_bytes is not None:
            size = sum(map(_size, self.records[drop:]))
            while size > topic.retention_bytes:
                size -= _size(self.records[drop])
                drop += 1
        del self.records[:drop]


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


class MemoryLog(Log):
    """A log in this process's memory, with every guarantee of `Log` except durability.

    `clock` returns the time in milliseconds, for retention.
    """

    numbers_again = True

    def __init__(self, url: str = "memory://", *, clock: Callable[[], int] = now_ms) -> None:
        self.url = url
        self.log_id = token_hex(16)
        self.waiting = Waiting()
        self._clock = clock
        self._topics = dict[str, Topic]()
        self._ids = dict[str, str]()
        self._created = 0
        self._partitions = dict[TopicPartition, Partition]()
        self._owners = MemoryOwners()
        self._closed = False

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """See `Log.create_topics`."""
        self._check_open()
        declared = [*topics]
        for topic in declared:
            refuse_mismatch(self._topics.get(topic.name, topic), topic)
        for topic in declared:
            if topic.name not in self._topics:
                self._created += 1
                self._ids[topic.name] = f"topic {self._created}"
            self._topics[topic.name] = topic
            for partition in range(topic.partitions):
                self._partitions.setdefault((topic.name, partition), Partition())

    async def delete_topics(self, names: Iterable[str]) -> None:
        """See `Log.delete_topics`."""
        self._check_open()
        for name in names:
            topic = self._topics.pop(name, None)
            for partition in range(0 if topic is None else topic.partitions):
                del self._partitions[name, partition]

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""
        return dict(self._topics)

    async def identities(self, names: Collection[str]) -> Mapping[str, TopicIdentity]:
        """See `Log.identities`."""
        there = self._topics
        return {
            name: TopicIdentity(self._ids[name], there[name].partitions, "memory") for name in names if name in there
        }

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`."""
        await asyncio.sleep(0)  # like a log that does I/O: callers take turns
        self._check_open()
        if claim is not None:
            self._owners.check(claim)
        refuse_unfit(records, self._topics)
        offsets = [self._partitions[record.topic_partition].append(record).offset for record in records]
        self.waiting.appended({record.topic_partition for record in records})
        return offsets

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        found = self._partition(topic, partition)
        first = found.index(offset)
        return found.records[first : first + limit]

    async def start(self, topic: str, partition: int) -> int:
        """See `Log.start`."""
        found = self._partition(topic, partition)
        return found.records[0].offset if found.records else found.end

    async def end(self, topic: str, partition: int) -> int:
        """See `Log.end`."""
        return self._partition(topic, partition).end

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        found = self._partition(topic, partition)
        return next((record.offset for record in found.records if record.timestamp_ms >= timestamp_ms), found.end)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`."""
        for partition in positions:
            self._partition(*partition)
        return LogReader(self, positions)

    async def refresh(self) -> None:
        """Only check that the log is open: no other process can append."""
        self._check_open()

    def known_end(self, partition: TopicPartition) -> int:
        """Return the end offset. Raises: ContractError when the partition does not exist any more."""
        return self._partition(*partition).end

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`."""
        self._check_open()
        return self._owners.seize(service, partition)

    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """See `Log.join`; a copy is nothing that one process needs."""
        del standbys
        self._check_open()
        return self._owners.join(service, partitions)

    async def compact(self) -> None:
        """See `Log.compact`."""
        self._check_open()
        now = self._clock()
        for (name, _), partition in self._partitions.items():
            if self._topics[name].compacted:
                partition.compact(now)
            else:
                partition.retain(self._topics[name], now)

    async def close(self) -> None:
        """See `Log.close`."""
        self._closed = True
        self.waiting.look_all()

    def _partition(self, topic: str, partition: int) -> Partition:
        self._check_open()
        known(self._topics, topic, partition)
        return self._partitions[topic, partition]

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable(f"the log {self.url} was closed by this process; open it again to use it")
