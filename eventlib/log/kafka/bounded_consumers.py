"""Bounds what aiokafka's consumers inflate for Faust; on its own, aiokafka inflates a batch to any size.

As of aiokafka 0.14, a fetch becomes `MemoryRecords`, which `PartitionRecords` iterates batch by batch. Both classes
are replaced in its module.
"""

from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c as crc32c

from eventlib.errors import ContractError, LogCorrupt
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.compressed import compression_of, end_of, uncompressed


class Batches:
    """The batches of one fetch; replaces aiokafka's `MemoryRecords`.

    Guarantee: compressed batches are inflated to `most_bytes` in all; those beyond are left for another fetch.
    """

    topic_partition: TopicPartition
    most_bytes: int

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._batches = MemoryRecords(data)
        self._at = 0
        self._left = self.most_bytes
        self._next: Any = None

    def size_in_bytes(self) -> int:
        """Return the size of the response in bytes."""
        return len(self._data)

    def has_next(self) -> bool:
        """Whether there is another batch: the first of a fetch, or one within the remaining bound."""
        if self._at and self._next is None and self._batches.has_next():
            self._next = self._take()
        return self._next is not None or (not self._at and self._batches.has_next())

    def next_batch(self) -> Any:
        """Return the next batch. Raises: ContractError if the first one inflates beyond the bound; LogCorrupt."""
        batch, self._next = self._next, None
        return batch or self._take()

    def _take(self) -> Any:
        """Return the next batch; None if it and those behind it must wait for another fetch."""
        batch = self._batches.next_batch()
        start, self._at = self._at, end_of(self._data, self._at)
        if not compression_of(self._data, start) or not batch.validate_crc():
            return batch
        try:
            plain = uncompressed(self.topic_partition, self._data[start : self._at], self._left)
        except (ContractError, LogCorrupt):
            if start == 0:
                raise
            self._batches = MemoryRecords(b"")
            return None
        self._left -= len(plain)
        return DefaultRecordBatch(_sealed(plain))


def _sealed(batch: bytes) -> bytes:
    """Return a batch with its checksum, which aiokafka verifies again."""
    return b"".join((batch[:_SUM], crc32c(batch[_SUMMED:]).to_bytes(4), batch[_SUMMED:]))


_SUM, _SUMMED = 17, 21  # the positions of a batch's checksum, and of the bytes that it covers


class _Partition(fetcher.PartitionRecords):  # type: ignore[misc]  # aiokafka is not typed
    def __init__(self, tp: Any, records: Batches, *others: Any) -> None:
        records.topic_partition = tuple(tp)
        super().__init__(tp, records, *others)


def bound_fetches(most_bytes: int) -> None:
    """Limit what consumers of this process inflate of one partition's fetch to `most_bytes`."""
    fetcher.MemoryRecords = type("Batches", (Batches,), {"most_bytes": most_bytes})
    fetcher.PartitionRecords = _Partition
