"""Converts records to Kafka's batches and back; an event's attributes are headers (CloudEvents' Kafka binding)."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from eventlib.errors import ContractError, DamagedRecord, LogCorrupt
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.compressed import compression_of, end_of, uncompressed
from eventlib.log.record import Record, text_of

_MAGIC = 2
_MOST_IN_A_BATCH = 1_000_000
_FIELDS = {
    "ce_id": 6,
    "ce_type": 7,
    "ce_source": 8,
    "ce_subject": 9,
    "ce_sequence": 10,
    "ce_correlationid": 11,
    "ce_causationid": 12,
    "traceparent": 13,
}
_SEQUENCE, _HEADERS = 10, 14
_VERSION = ("ce_specversion", b"1.0")


class Producing(NamedTuple):
    """The producer of a batch; `producer_id` and `epoch` are -1 without a producer id."""

    producer_id: int
    epoch: int
    transactional: bool
    compression: int  # as Kafka counts: 0 none, 1 gzip


class Batch(NamedTuple):
    """Records of one partition in Kafka's format; `indexes` are their indexes in the append."""

    topic_partition: TopicPartition
    indexes: Sequence[int]
    sequence: int
    data: bytes


def batches(
    records: Sequence[Record],
    producing: Producing,
    sequences: Mapping[TopicPartition, int],
    largest: Callable[[str], int],
) -> Iterator[Batch]:
    """Yield records as batches of at most `largest(topic)` bytes, or of one record; each partition's in order.

    `sequences` has the next sequence number of each partition.
    """
    by_place = dict[TopicPartition, list[int]]()
    for index, record in enumerate(records):
        by_place.setdefault(record.topic_partition, []).append(index)
    for topic_partition, indexes in by_place.items():
        sequence = sequences.get(topic_partition, 0)
        left = indexes
        while left:
            batch = _batch(records, left, topic_partition, sequence, producing, largest(topic_partition[0]))
            yield batch
            sequence = next_sequence(sequence, len(batch.indexes))
            left = left[len(batch.indexes) :]


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence number after `count` records: 31 bits, then from 0 again."""
    return (sequence + count) & 0x7FFFFFFF


def _batch(
    records: Sequence[Record],
    indexes: Sequence[int],
    topic_partition: TopicPartition,
    sequence: int,
    producing: Producing,
    largest: int,
) -> Batch:
    builder = DefaultRecordBatchBuilder(
        _MAGIC,
        producing.compression,
        producing.transactional,
        producing.producer_id,
        producing.epoch,
        sequence,
        largest,
    )
    taken = 0
    for index in indexes:
        record = records[index]
        if builder.append(taken, record.timestamp_ms, record.key, record.value, headers_of(record)) is None:
            break
        taken += 1
    return Batch(topic_partition, indexes[:taken], sequence, bytes(builder.build()))


def headers_of(record: Record) -> list[tuple[str, bytes]]:
    """Return a record's attributes and headers as Kafka headers."""
    found = [] if record.id is None and record.type is None else [_VERSION]
    if record.id is not None:
        found.append(("ce_id", record.id.encode()))
    if record.type is not None:
        found.append(_repeated("ce_type", record.type))
    if record.source is not None:
        found.append(_repeated("ce_source", record.source))
    if record.subject is not None:
        found.append(("ce_subject", record.subject.encode()))
    if record.sequence is not None:
        found.append(("ce_sequence", b"%d" % record.sequence))
    if record.correlation_id is not None:
        found.append(("ce_correlationid", record.correlation_id.encode()))
    if record.causation_id is not None:
        found.append(("ce_causationid", record.causation_id.encode()))
    if record.traceparent is not None:
        found.append(("traceparent", record.traceparent.encode()))
    return [*found, *record.headers] if record.headers else found


@lru_cache(maxsize=1_024)  # one for each event type and decider
def _repeated(name: str, value: str) -> tuple[str, bytes]:
    return name, value.encode()


def record_of(topic_partition: TopicPartition, raw: Any) -> Record:
    """Convert a Kafka record; an attribute in an unknown form stays a header."""
    fields: list[Any] = [*topic_partition, raw.offset, raw.timestamp, raw.key, raw.value, *_NO_ATTRIBUTES]
    others = list[tuple[str, bytes]]()
    for name, value in raw.headers:
        index = _FIELDS.get(name)
        if index is None:
            if name != "ce_specversion":
                others.append((name, value or b""))
            continue
        try:
            fields[index] = int(value) if index == _SEQUENCE else value.decode()
        except (ValueError, AttributeError):
            others.append((name, value or b""))
    if others:
        fields[_HEADERS] = tuple(others)
    return Record(*fields)


_NO_ATTRIBUTES: tuple[Any, ...] = (None,) * 8 + ((),)


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
