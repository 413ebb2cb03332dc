"""What every log refuses, in the same words; and a record's headers as text."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from eventlib.errors import ContractError, OwnershipLost, TailLost, TopicMismatch
from eventlib.log.base import Claim, Log, Record, TopicPartition
from eventlib.log.url import log_file
from eventlib.model.topic import Topic

NO_RECORD = "the log gave out this offset, and has no record there"
"""Why a record is damaged of which nothing is left."""


def why_changed(checksum: object) -> str:
    """Return why a record is damaged that has this checksum, which is not that of what it says."""
    return "it has no checksum" if checksum is None else "it does not match its checksum"


def refuse_mismatch(there: Topic, declared: Topic) -> None:
    """Refuse a declaration that would put keys into other partitions. Raises: TopicMismatch."""
    if there.partitions != declared.partitions:
        what = f"{there.partitions} partitions on the log, but is declared with {declared.partitions}"
    elif there.partitioner != declared.partitioner:
        what = f"the partitioner {there.partitioner!r} on the log, but is declared with {declared.partitioner!r}"
    else:
        return
    raise TopicMismatch(
        f"topic {there.name!r} has {what}. A key's events would no longer meet in one partition, so this is not "
        f"changed in place: declare a new topic (for example {there.name + '.v2'!r}), replay the old one into it, "
        "and let its readers and writers move over"
    )


def refuse_unfit(records: Iterable[Record], topics: Mapping[str, Topic]) -> None:
    """Refuse records that are not for this log. Raises: ContractError."""
    for record in records:
        topic = known(topics, record.topic, record.partition)
        if record.value is not None and len(record.value) > topic.max_event_bytes:
            raise too_large(record, topic)


def too_large(record: Record, topic: Topic) -> ContractError:
    """Return the refusal of a record over its topic's largest event."""
    what = record.type or "a record"
    size = len(record.value or b"")
    return ContractError(
        f"{what} for topic {topic.name!r} has {size:,} bytes, but the topic takes events of at most "
        f"{topic.max_event_bytes:,}: make the event smaller, or declare the topic with a larger max_event_bytes"
    )


def known(topics: Mapping[str, Topic], name: str, partition: int) -> Topic:
    """Return a topic that has this partition. Raises: ContractError when there is none."""
    topic = topics.get(name)
    if topic is None:
        there = ", ".join(sorted(topics)) or "none yet"
        raise ContractError(f"there is no topic {name!r} on this log (there are: {there}); create it first")
    if not 0 <= partition < topic.partitions:
        raise ContractError(f"topic {name!r} has the partitions 0 to {topic.partitions - 1}, and no {partition}")
    return topic


def ownership_lost(claim: Claim, newest: int) -> OwnershipLost:
    """Return the refusal of an append by an owner whose place was taken over."""
    return OwnershipLost(
        f"partition {claim.partition} of service {claim.service!r} has another owner now (epoch {newest}, this is "
        f"epoch {claim.epoch}): nothing was written; drop what was worked out, and start over when it is owned again"
    )


def witnessed_loss(log: Log, place: TopicPartition, end: int, witness: str, seen: int) -> TailLost:
    """Return the refusal to go on where a cache of the same log has seen more of a partition than the log has."""
    what = (
        f"{place[0]}/{place[1]} of {log.url} ends at {end}, but {witness} has seen it up to {seen}: records that were "
        "acknowledged are gone from the log's end"
    )
    file = log_file(log.url)
    if file is not None:
        return TailLost(f"{what}. {without_tail(file)}")
    return TailLost(f"{what}. Bring them back; if the topic was made anew on purpose, delete {witness}")


def without_tail(path: Path) -> str:
    """Return what can be done about a log in a file that lost its end."""
    return (
        "What is there can be read, and nothing is written. Put a newer copy in its place (`eventlib restore --from COPY "
        f"--to sqlite:///{path}`), or go on without them: `eventlib repair --accept-loss --reason WHY`"
    )


@lru_cache(maxsize=4_096)  # a state's headers are the same at each of its changes
def encode_headers(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    """Return headers as JSON pairs that people can read; bytes that are not UTF-8 survive as lone surrogates."""
    if not headers:
        return None
    return json.dumps([[name, value.decode("utf-8", "surrogateescape")] for name, value in headers])


def decode_headers(text: str | None) -> tuple[tuple[str, bytes], ...]:
    """Return what `encode_headers` was given."""
    if text is None:  # nearly all of them
        return ()
    return tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in json.loads(text))
