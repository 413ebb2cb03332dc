"""The validation that all logs share, with its error messages; and record headers as text."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from eventlib.errors import ContractError, OwnershipLost, TailLost, TopicMismatch
from eventlib.ground.arguments import did_you_mean
from eventlib.ground.url import log_file
from eventlib.log.base import Claim, Log, TopicPartition
from eventlib.model.record import Record
from eventlib.model.topic import Topic

NO_RECORD = "the log assigned this offset, and has no record there"
"""The damage reason for a record that is missing."""


def why_changed(checksum: object) -> str:
    """Return the damage reason for a record whose content does not match this checksum."""
    return "it has no checksum" if checksum is None else "it does not match its checksum"


def refuse_mismatch(there: Topic, declared: Topic) -> None:
    """Refuse a declaration that would move keys to other partitions. Raises: TopicMismatch."""
    if there.partitions != declared.partitions:
        what = f"{there.partitions} partitions on the log, but is declared with {declared.partitions}"
    elif there.partitioner != declared.partitioner:
        what = f"the partitioner {there.partitioner!r} on the log, but is declared with {declared.partitioner!r}"
    else:
        return
    raise TopicMismatch(
        f"topic {there.name!r} has {what}. A key's events would be spread over two partitions, so this is not "
        f"changed in place: declare a new topic (for example {there.name + '.v2'!r}), replay the old one into it, "
        "and move its consumers and producers over"
    )


BESIDE_THE_VALUE = 65_536
"""How many bytes a record may have beyond its topic's largest event: its key, attributes and headers, and the log's own."""

_OF_A_RECORD = 128
_OF_AN_ATTRIBUTE = 32
_OF_A_HEADER = 10
_MOST_OF_COMPRESSION = 32_768


def refuse_unfit(records: Iterable[Record], topics: Mapping[str, Topic]) -> None:
    """Refuse records that this log cannot store. Raises: ContractError."""
    for record in records:
        refuse_large(record, known(topics, record.topic, record.partition))


class TooLargeForLog(ContractError):
    """The log takes fewer bytes than the topic is declared with: an operator has set its limit lower."""


def refuse_large(record: Record, topic: Topic) -> None:
    """Refuse a record that is over its topic's largest event, or has too much beside its value. Raises: ContractError."""
    size, most = len(record.value or b""), topic.max_event_bytes
    if size > most:
        raise ContractError(
            f"{record.type or 'a record'} for topic {topic.name!r} has {size:,} bytes, but the topic accepts events of "
            f"at most {most:,}: make the event smaller, or declare the topic with a larger max_event_bytes"
        )
    size, most = stored_bytes(record), most + BESIDE_THE_VALUE
    if size > most:
        raise ContractError(
            f"{record.type or 'a record'} for topic {topic.name!r} has {size:,} bytes with its key and headers (the key "
            f"alone {len(record.key or b''):,}), but the topic accepts records of at most {most:,}: shorten the key or "
            "the headers, make the event smaller, or declare the topic with a larger max_event_bytes"
        )


def stored_bytes(record: Record) -> int:
    """Return an upper bound of a record's bytes on any log: those of a Kafka batch that holds it alone.

    The last part is what compression may add to bytes that it cannot make fewer.
    Source: https://kafka.apache.org/documentation/#messageformat; RFC 1951, 3.2.4, for stored blocks.
    """
    size = _OF_A_RECORD + len(record.key or b"") + len(record.value or b"")
    for text in (record.id, record.type, record.source, record.subject, record.correlation_id, record.causation_id):
        if text is not None:
            size += _OF_AN_ATTRIBUTE + len(text.encode("utf-8", "surrogatepass"))
    size += 2 * _OF_AN_ATTRIBUTE + len(record.traceparent or "")
    for name, value in record.headers:
        size += _OF_A_HEADER + len(name.encode("utf-8", "surrogatepass")) + len(value)
    return size + min(size >> 11, _MOST_OF_COMPRESSION)


def known(topics: Mapping[str, Topic], name: str, partition: int) -> Topic:
    """Return a topic that has this partition. Raises: ContractError when it does not exist."""
    topic = topics.get(name)
    if topic is None:
        there = ", ".join(sorted(topics)) or "none yet"
        raise ContractError(
            f"there is no topic {name!r} on this log (topics: {there}): {did_you_mean(name, topics)}create it first"
        )
    if not 0 <= partition < topic.partitions:
        raise ContractError(f"topic {name!r} has partitions 0 to {topic.partitions - 1}, but no {partition}")
    return topic


def ownership_lost(claim: Claim, newest: int) -> OwnershipLost:
    """Return the error for an append by an owner that has been fenced off."""
    return OwnershipLost(
        f"partition {claim.partition} of service {claim.service!r} has another owner now (epoch {newest}, this is "
        f"epoch {claim.epoch}): nothing was written; discard the computed state, and restart when it is owned again"
    )


def witnessed_loss(log: Log, topic_partition: TopicPartition, end: int, witness: str, seen: int) -> TailLost:
    """Return the error for a log that ends before what a cache of the same log has already read."""
    what = (
        f"{topic_partition[0]}/{topic_partition[1]} of {log.url} ends at {end}, but {witness} has "
        f"seen it up to {seen}: acknowledged records are missing at the log's end"
    )
    file = log_file(log.url)
    if file is not None:
        return TailLost(f"{what}. {without_tail(file)}")
    return TailLost(f"{what}. Restore them; if the topic was recreated on purpose, delete {witness}")


def without_tail(path: Path) -> str:
    """Return the remedies for a file log that lost its tail."""
    return (
        "The remaining records can be read; writes are refused. Replace it with a newer copy (`eventlib restore "
        f"--from COPY --to sqlite:///{path}`), or accept the loss: `eventlib repair --accept-loss --reason WHY`"
    )


@lru_cache(maxsize=4_096)  # the headers of a state's changelog records are all equal
def encode_headers(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    """Return headers as readable JSON pairs; bytes that are not UTF-8 survive as lone surrogates."""
    if not headers:
        return None
    return json.dumps([[name, value.decode("utf-8", "surrogateescape")] for name, value in headers])


def columns_of(record: Record) -> tuple[Any, ...]:
    """Return what stands of a record beside its location: recorded_at, key, value, id … traceparent, headers as text."""
    return (
        record.timestamp_ms,
        record.key,
        record.value,
        record.id,
        record.type,
        record.source,
        record.subject,
        record.sequence,
        record.correlation_id,
        record.causation_id,
        record.traceparent,
        encode_headers(record.headers) if record.headers else None,
    )


def decode_headers(text: str | None) -> tuple[tuple[str, bytes], ...]:
    """Return the headers that `encode_headers` encoded."""
    if text is None:  # the common case
        return ()
    return tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in json.loads(text))
