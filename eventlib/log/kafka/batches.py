"""Converts records to Kafka's batches and back; an event's attributes are headers (CloudEvents' Kafka binding)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from eventlib.log.base import TopicPartition
from eventlib.model.record import Record

_MAGIC = 2
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
