"""A broker's answer for one partition: its batches, verified, without the records of aborted transactions."""

from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from eventlib.errors import ContractError, DamagedRecord, LogCorrupt
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.batches import record_of
from eventlib.log.kafka.compressed import compression_of, end_of, uncompressed
from eventlib.model.record import Record, text_of

_MOST_IN_A_BATCH = 1_000_000


def _keep_newest(raws: Iterable[Any], kept: MutableMapping[bytes, bytes], kind: str | None) -> None:
    wanted = None if kind is None else ("ce_type", kind.encode())
    for raw in raws:
        key, value = raw.key, raw.value
        if key is None:
            continue
        if not key.isascii():
            key = text_of(key).encode()
        if value is not None and (wanted is None or wanted in raw.headers):
            kept[key] = value
        else:
            kept.pop(key, None)


def _damaged(topic_partition: TopicPartition, first: int, batch: Any, following: MemoryRecords) -> DamagedRecord:
    """Return the damage of a batch: all its records are lost; its end is taken from its own header."""
    most = following.next_batch().base_offset if following.has_next() else batch.base_offset + _MOST_IN_A_BATCH
    offset = max(first, batch.base_offset)
    resume_at = max(batch.next_offset, offset + 1) if batch.next_offset <= most else offset + 1
    return DamagedRecord("its batch does not match its checksum", *topic_partition, offset, resume_at)


class Chunk:
    """A broker's response for one partition: the committed records from offset `first` to `next`, exclusive.

    They are decoded once, on first use; `records` may begin before `first`, since batches are sent whole.
    Guarantee: compressed batches are inflated to `most_bytes` in all; those beyond are left for another fetch.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        first: int,
        data: bytes,
        aborted: Iterable[tuple[int, int]],
        most_bytes: int = 64_000_000,
    ) -> None:
        self.topic_partition = topic_partition
        self.first = first
        self.next = first
        self.size = len(data)
        self._batches = list[Any]()
        self._records: list[Record] | None = None
        self._refused: ContractError | LogCorrupt | None = None
        self._left = most_bytes
        self._take(data, deque(sorted(aborted or (), key=lambda each: each[1])))

    @property
    def is_refused(self) -> bool:
        """Whether `records` raises: the chunk then consists of one unreadable batch."""
        return self._refused is not None

    @property
    def is_empty(self) -> bool:
        """Whether it has no records, only markers or aborted ones."""
        return not self._batches and not self._records and self._refused is None

    @property
    def records(self) -> list[Record]:
        """The records, in offset order.

        Raises: DamagedRecord, LogCorrupt; ContractError for a batch that inflates beyond the bound, or whose compression is unknown.
        """
        if self._records is None:
            with self._explained():
                self._records = [record_of(self.topic_partition, raw) for batch in self._batches for raw in batch]
            self._batches = []
        return self._records

    def keep_newest(self, offset: int, kept: MutableMapping[bytes, bytes], kind: str | None) -> None:
        """Fold the records from `offset` on as `Log.newest` does, instead of creating them. Raises: as `records` does."""
        with self._explained():
            for batch in self._batches:
                raws = batch if batch.base_offset >= offset else [raw for raw in batch if raw.offset >= offset]
                _keep_newest(raws, kept, kind)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        if self._refused is not None:
            raise self._refused
        try:
            yield
        except CorruptRecordException as error:
            raise LogCorrupt(
                f"{self.topic_partition[0]}/{self.topic_partition[1]} is damaged near {self.first}: {error}"
            ) from error

    def _take(self, data: bytes, aborted: deque[tuple[int, int]]) -> None:
        memory = MemoryRecords(data)
        dropping, at = set[int](), 0
        while memory.has_next():
            batch = memory.next_batch()
            if not batch.validate_crc():
                self._refuse(_damaged(self.topic_partition, self.first, batch, memory))
                return
            start, at = at, end_of(data, at)
            if compression_of(data, start) and (batch := self._inflated(data[start:at])) is None:
                return
            self.next = max(self.next, batch.next_offset)
            while aborted and aborted[0][1] < batch.next_offset:
                dropping.add(aborted.popleft()[0])
            if batch.is_control_batch:
                if any(ControlRecord.parse(raw.key) == ABORT_MARKER for raw in batch):
                    dropping.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in dropping):
                self._batches.append(batch)

    def _refuse(self, error: ContractError | LogCorrupt) -> None:
        """Mark the next batch as unreadable; after readable batches, leave it to the fetch that starts with it."""
        if self.next == self.first and not self._batches:
            self._refused = error
            self.next = error.resume_at if isinstance(error, DamagedRecord) else self.first + 1

    def _inflated(self, data: bytes) -> Any:
        """Return the inflated batch; None if it must wait, or is unreadable."""
        try:
            plain = uncompressed(self.topic_partition, data, self._left)
        except (ContractError, LogCorrupt) as error:
            self._refuse(error)
            return None
        self._left -= len(plain)
        self.size += len(plain)
        return DefaultRecordBatch(plain)
