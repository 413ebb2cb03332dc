"""Shared by the readers of one Kafka log: the fetches that wait at its brokers, and the memory for reading ahead."""

import asyncio
from typing import TYPE_CHECKING

from eventlib.errors import LogUnavailable
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.partition_fetcher import Slot
from eventlib.log.kafka.point_reads import PointReads, Written
from eventlib.log.kafka.tail import Tail

if TYPE_CHECKING:
    from eventlib.log.kafka.reader import KafkaReader

_BUDGET_BYTES = 32_000_000
_LEAST_BYTES, _MOST_BYTES = 16_000, 500_000
_TAILS, _MOST_TAILS = 4, 16
"""How many fetches wait at a broker at most: more for topics with many partitions, since each append makes a broker
check all partitions of a waiting fetch."""


class Feed:
    """Shared by the readers of one log: tails per broker, and the read-ahead memory."""

    def __init__(self, cluster: Cluster, written: Written, point_reads: PointReads) -> None:
        self.cluster = cluster
        self.written = written
        self.point_reads = point_reads
        self._readers: set[KafkaReader] = set()
        self._slots = 0
        self._tails = dict[tuple[int, int], Tail]()

    def room(self) -> int:
        """Return how many bytes each partition of each reader may read ahead."""
        return min(max(_BUDGET_BYTES // max(self._slots, 1), _LEAST_BYTES), _MOST_BYTES)

    def opened(self, reader: "KafkaReader") -> None:
        """Register a reader."""
        self._readers.add(reader)
        self._slots += len(reader.slots)

    def closed(self, reader: "KafkaReader") -> None:
        """Unregister a reader."""
        if reader in self._readers:
            self._readers.remove(reader)
            self._slots -= len(reader.slots)

    def follow(self, slot: Slot) -> bool:
        """Let a slot that has caught up wait for more. Raises: Transient when its partition has no leader."""
        topic, partition = slot.topic_partition
        tails = min(max(_TAILS, len(self.cluster.topics.get(topic, ())) // 4), _MOST_TAILS)
        node, lane = self.cluster.leader(slot.topic_partition), partition % tails
        if (node, lane) not in self._tails:
            self._tails[node, lane] = Tail(self.cluster, node, f"tail {lane}")
        return self._tails[node, lane].follow(slot)

    async def close(self) -> None:
        """Fail every waiting reader."""
        for reader in [*self._readers]:
            reader.fail(LogUnavailable("the log was closed by this process; open it again to use it"))
        await asyncio.gather(*(tail.close() for tail in self._tails.values()))
