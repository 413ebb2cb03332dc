"""Fetches partitions' records and offsets, and buffers what a reader has not yet returned."""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aiokafka.protocol.fetch import FetchRequest_v11
from aiokafka.protocol.offset import OffsetRequest

from eventlib.log.base import TopicPartition
from eventlib.log.kafka.chunk import Chunk
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code, failure
from eventlib.log.kafka.requests import Exactly
from eventlib.model.record import Record

if TYPE_CHECKING:
    from eventlib.log.kafka.tail import Tail

_A_LITTLE = 5_000


class SlotReader(Protocol):
    """The reader interface that its slots use."""

    def look(self) -> None:
        """Check again: something has changed."""

    def room(self) -> int:
        """Return how many bytes a slot may buffer."""


class Slot:
    """A partition, from a position on.

    `position` is the next offset to return, `fetched` the next to fetch. `tail` fetches it; it is None while the slot
    catches up by itself.
    """

    def __init__(self, reader: SlotReader, topic_partition: TopicPartition, offset: int) -> None:
        self.reader = reader
        self.topic_partition = topic_partition
        self.position = offset
        self.fetched = offset
        self.tail: Tail | None = None
        self._chunks = deque[Chunk]()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether it may buffer more."""
        return self._bytes < self.reader.room()

    @property
    def is_ready(self) -> bool:
        """Whether it has records to return."""
        return bool(self._chunks)

    @property
    def is_refused(self) -> bool:
        """Whether its next records are unreadable: they were damaged."""
        return bool(self._chunks) and self._chunks[0].is_refused

    def deliver(self, chunk: Chunk) -> None:
        """Buffer the next chunk, if it is contiguous and there is room."""
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
        """Skip to an offset: there is nothing before it."""
        self.fetched = max(self.fetched, offset)
        if not self._chunks:
            self.position = max(self.position, self.fetched)

    def go_past(self, offset: int) -> bool:
        """Skip to an offset a little ahead; False, without effect, if it is farther."""
        if self.is_refused or not self.position <= offset <= self.fetched + _A_LITTLE:
            return False
        self.position = offset
        return True

    def take(self, limit: int) -> list[Record]:
        """Return up to `limit` records, and move the position past gaps after them. Raises: as `Chunk.records` does."""
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


LATEST, EARLIEST = -1, -2
"""The special timestamps for a partition's ends."""

_A_CONSUMER = -1
_ALL, _COMMITTED = 0, 1
_ANY_EPOCH = -1
_RESPONSE_BYTES = 8_000_000

NO_SESSION = (0, -1)
"""The session id and epoch of a fetch without a session."""


class FetchSpec(NamedTuple):
    """The offset at which to fetch a partition, and how many bytes at most; at least one batch is returned."""

    topic_partition: TopicPartition
    offset: int
    most_bytes: int


class Fetched(NamedTuple):
    """A broker's response for one partition: a chunk, and the end of what is committed."""

    topic_partition: TopicPartition
    code: int
    end: int
    chunk: Chunk | None


async def fetch(cluster: Cluster, node: int, specs: Sequence[FetchSpec], lane: str = "read") -> list[Fetched]:
    """Fetch what is available now, from one broker. Raises: Transient."""
    answer = await cluster.send(node, fetch_request(cluster, specs), lane)
    if answer.error_code:
        raise failure(answer.error_code, "fetching")
    offsets = {each.topic_partition: each.offset for each in specs}
    return fetched(cluster, answer, offsets)


def fetch_request(
    cluster: Cluster,
    specs: Sequence[FetchSpec],
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[TopicPartition] = (),
    wait_ms: int = 0,
) -> Exactly:
    """Return a fetch request; in a session it names only what has changed since the last one."""
    topics = dict[str, list[tuple[int, ...]]]()
    for (topic, partition), offset, most_bytes in specs:
        each = (partition, _ANY_EPOCH, offset, _A_CONSUMER, most_bytes)
        topics.setdefault(cluster.physical(topic), []).append(each)
    removed = dict[str, list[int]]()
    for topic, partition in forgotten:
        removed.setdefault(cluster.physical(topic), []).append(partition)
    return Exactly(
        FetchRequest_v11(
            _A_CONSUMER, wait_ms, 1, _RESPONSE_BYTES, _COMMITTED, *session, [*topics.items()], [*removed.items()], ""
        )
    )


def fetched(cluster: Cluster, answer: Any, offsets: Mapping[TopicPartition, int]) -> list[Fetched]:
    """Parse a fetch response; `offsets` are where each partition was fetched from. Raises: LogCorrupt."""
    found = list[Fetched]()
    for topic, partitions in answer.topics:
        name = cluster.logical(topic)
        for partition, code, _, end, _, aborted, _, data in partitions:
            topic_partition = (name, partition)
            most = cluster.options.inflated_bytes
            chunk = Chunk(topic_partition, offsets.get(topic_partition, 0), data, aborted, most) if data else None
            found.append(Fetched(topic_partition, code, end, chunk))
    return found


async def offsets_at(
    cluster: Cluster, topic_partitions: Iterable[TopicPartition], time_ms: int, *, committed: bool = True
) -> dict[TopicPartition, int]:
    """Return each partition's first committed offset at or after a time; the end for LATEST, -1 for none.

    With `committed=False`, records of open transactions count too. Raises: LogUnavailable, LogDenied.
    """
    isolation = _COMMITTED if committed else _ALL
    found = dict[TopicPartition, int]()
    left = set(topic_partitions)

    async def attempt() -> None:
        by_leader = cluster.by_leader(left)
        requests = [_ask(cluster, node, theirs, (isolation, time_ms)) for node, theirs in by_leader.items()]
        for answers in await asyncio.gather(*requests):
            found.update(answers)
            left.difference_update(answers)

    await cluster.persist(attempt, cluster.options.request_timeout_s)
    return found


async def _ask(
    cluster: Cluster, node: int, topic_partitions: Sequence[TopicPartition], what: tuple[int, int]
) -> dict[TopicPartition, int]:
    isolation, time_ms = what
    topics = dict[str, list[tuple[int, int]]]()
    for topic, partition in topic_partitions:
        topics.setdefault(cluster.physical(topic), []).append((partition, time_ms))
    answer = await cluster.send(node, OffsetRequest(_A_CONSUMER, isolation, [*topics.items()]), "read")
    found = dict[TopicPartition, int]()
    for topic, partitions in answer.topics:
        for partition, code, _, offset in partitions:
            topic_partition = (cluster.logical(topic), partition)
            if code != Code.NONE:
                raise failure(code, f"looking up an offset of {topic_partition[0]}/{partition}")
            found[topic_partition] = offset
    return found
