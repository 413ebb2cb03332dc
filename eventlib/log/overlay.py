"""A log over another one: it reads what is there, and keeps in memory what is written, so that an act can be tried."""

from collections.abc import Iterable, Mapping, Sequence

from eventlib.errors import LogReadOnly
from eventlib.log.base import Claim, Log, Membership, Reader, TopicPartition
from eventlib.log.memory import Partition
from eventlib.log.memory_owners import MemoryOwners
from eventlib.log.reader import LogReader, Waiting
from eventlib.log.rules import known, refuse_mismatch, refuse_unfit
from eventlib.model.record import Record
from eventlib.model.topic import Topic


class OverlayLog(Log):
    """A log as another one would be after some appends; `written` has their records, at their offsets.

    Guarantee: the other log is only read: nothing is written, created, deleted or claimed there, so that its services
    notice nothing. A partition that was written here no longer shows what comes to the other log's.
    """

    def __init__(self, log: Log) -> None:
        self.url, self.log_id = log.url, log.log_id
        self.waiting = Waiting()
        self.written: list[Record] = []
        self._log = log
        self._topics: dict[str, Topic] = {}
        self._deleted: set[str] = set()
        self._firsts: dict[TopicPartition, int] = {}
        self._partitions: dict[TopicPartition, Partition] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._owners = MemoryOwners()

    async def topics(self) -> Mapping[str, Topic]:
        """See `Log.topics`."""
        there = await self._log.topics()
        return {name: each for name, each in there.items() if name not in self._deleted} | self._topics

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        """See `Log.create_topics`; what is there keeps its settings."""
        there = await self.topics()
        declared = [*topics]
        for topic in declared:
            refuse_mismatch(there.get(topic.name, topic), topic)
        self._topics |= {topic.name: topic for topic in declared if topic.name not in there}

    async def delete_topics(self, names: Iterable[str]) -> None:
        """See `Log.delete_topics`."""
        for name in names:
            self._deleted.add(name)
            self._topics.pop(name, None)
            self._partitions = {place: each for place, each in self._partitions.items() if place[0] != name}

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`."""
        if claim is not None:
            self._owners.check(claim)
        refuse_unfit(records, await self.topics())
        offsets = list[int]()
        for record in records:
            placed = (await self._own(record.topic_partition)).append(record)
            self.written.append(placed)
            offsets.append(placed.offset)
        self.waiting.appended({record.topic_partition for record in records})
        return offsets

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        place, found = (topic, partition), list[Record]()
        own = self._partitions.get(place)
        if self._is_below(place):
            found = await self._log.read(*place, offset, limit)
            if own is None:
                return found
            found = [record for record in found if record.offset < self._firsts[place]]
        if own is None or len(found) == limit:
            return found
        first = own.index(offset)
        return [*found, *own.records[first : first + limit - len(found)]]

    async def start(self, topic: str, partition: int) -> int:
        """See `Log.start`."""
        return await self._log.start(topic, partition) if self._is_below((topic, partition)) else 0

    async def log_start(self, topic: str, partition: int) -> int:
        """See `Log.log_start`."""
        return await self._log.log_start(topic, partition) if self._is_below((topic, partition)) else 0

    async def end(self, topic: str, partition: int) -> int:
        """See `Log.end`."""
        place = topic, partition
        if (own := self._partitions.get(place)) is not None:
            return own.end
        return await self._log.end(*place) if self._is_below(place) else 0

    async def decided_end(self, topic: str, partition: int) -> int:
        """See `Log.decided_end`."""
        place = topic, partition
        if place in self._partitions or not self._is_below(place):
            return await self.end(*place)
        return await self._log.decided_end(*place)

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """See `Log.offset_at`."""
        place = topic, partition
        own, first = self._partitions.get(place), self._firsts.get(place, 0)
        below = await self._log.offset_at(*place, timestamp_ms) if self._is_below(place) else first
        if own is None or below < first:
            return below
        return next((each.offset for each in own.records if each.timestamp_ms >= timestamp_ms), own.end)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`; it waits for nothing but what is written here."""
        self._ends |= dict.fromkeys(positions, 0)
        return LogReader(self, positions)

    async def refresh(self) -> None:
        """Look how far the partitions are that readers read."""
        for place in self._ends:
            self._ends[place] = await self.end(*place)

    def known_end(self, partition: TopicPartition) -> int:
        """Return the end offset of a partition that a reader reads, as of the last refresh."""
        own = self._partitions.get(partition)
        return self._ends[partition] if own is None else own.end

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`; its owner on the other log keeps the partition."""
        return self._owners.claim(service, partition)

    async def join(self, service: str, partitions: int, standbys: int = 0) -> Membership:
        """Refuse. Raises: LogReadOnly."""
        del partitions, standbys
        raise LogReadOnly(f"{self.url} is only tried here: no process runs {service} on it")

    async def compact(self) -> None:
        """Do nothing: what is written here is short-lived."""

    async def close(self) -> None:
        """Do nothing: the caller that opened the other log closes it."""

    async def _own(self, place: TopicPartition) -> Partition:
        if place not in self._partitions:
            made = Partition()
            made.end = self._firsts[place] = await self.decided_end(*place)
            self._partitions[place] = made
        return self._partitions[place]

    def _is_below(self, place: TopicPartition) -> bool:
        """Tell whether the other log has a partition, which was not deleted here. Raises: ContractError for none at all."""
        if place[0] in self._topics or place[0] in self._deleted:
            known(self._topics, *place)
            return False
        return True
