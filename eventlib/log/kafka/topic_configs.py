"""Converts topic declarations to Kafka's topic configs and back; and the Kafka log's internal topics."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from eventlib.log.base import TOMBSTONES_KEPT
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.rules import BESIDE_THE_VALUE
from eventlib.model.topic import Topic

OWN = "_eventlib."
"""The prefix of the log's internal topics."""

OWNERS = Topic(f"{OWN}owners", partitions=1, compacted=True)
"""The owner of each partition of each service, newest last: a claim's epoch follows from its offset there."""

INCOMING = Topic(f"{OWN}incoming", partitions=1)
"""Exists while the log is an incomplete copy."""

DECLARATIONS = Topic(f"{OWN}topics", partitions=1, compacted=True)
"""The declared properties without a Kafka config, by topic."""

MOST_REPLICAS = 3

TOPIC_RESOURCE = 2
"""A topic, among the types of what has configs in Kafka's protocol."""

TIMESTAMP_TYPE = "message.timestamp.type"
DECLARED_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes")
COMPACTION_KEYS = ("delete.retention.ms", "min.compaction.lag.ms")

_MILLISECOND = timedelta(milliseconds=1)
_WEEK = timedelta(days=7)
_SEGMENTS = 4
"""Retention drops whole segments, so a topic is split into several."""

_LEAST_SEGMENT_BYTES, _MOST_SEGMENT_BYTES = 1 << 20, 1 << 30
_COMPACTED_SEGMENT_BYTES = 64 << 20  # the newest segment is never compacted


def declared_configs(topic: Topic) -> dict[str, str]:
    """Return the configs that follow from a declaration."""
    found = {
        "cleanup.policy": "compact" if topic.compacted else "delete",
        "retention.ms": _number(None if topic.retention is None else topic.retention // _MILLISECOND),
        "retention.bytes": _number(topic.retention_bytes),
        "max.message.bytes": str(topic.max_event_bytes + BESIDE_THE_VALUE),
    }
    if topic.compacted:
        found["delete.retention.ms"] = str(TOMBSTONES_KEPT // _MILLISECOND)
        found["min.compaction.lag.ms"] = "0"
    return found


def creation_configs(topic: Topic, replicas: int, options: KafkaOptions) -> dict[str, str]:
    """Return the configs of a new topic."""
    return declared_configs(topic) | {
        TIMESTAMP_TYPE: "CreateTime",
        "min.insync.replicas": str(options.min_insync_replicas or max(replicas - 1, 1)),
        "segment.bytes": str(_segment_bytes(topic)),
        "segment.ms": str(min(_WEEK, (topic.retention or _WEEK) / _SEGMENTS) // _MILLISECOND),
    }


def topic_from(name: str, partitions: int, configs: Mapping[str, str], declared: Mapping[str, Any]) -> Topic:
    """Return a topic as the cluster has it, declared or not."""
    retention_ms, retention_bytes = int(configs["retention.ms"]), int(configs["retention.bytes"])
    return Topic(
        name,
        partitions=partitions,
        retention=None if retention_ms < 0 else retention_ms * _MILLISECOND,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
        compacted="compact" in configs["cleanup.policy"],
        latest=declared.get("latest", False),
        partitioner=declared.get("partitioner", "murmur2"),
        max_event_bytes=max(int(configs["max.message.bytes"]) - BESIDE_THE_VALUE, 1),
    )


def _number(value: int | None) -> str:
    return "-1" if value is None else str(value)


def _segment_bytes(topic: Topic) -> int:
    if topic.compacted:
        size = _COMPACTED_SEGMENT_BYTES
    elif topic.retention_bytes is not None:
        size = topic.retention_bytes // _SEGMENTS
    else:
        size = _MOST_SEGMENT_BYTES
    # A record must fit into a segment.
    return max(size, _LEAST_SEGMENT_BYTES, topic.max_event_bytes + BESIDE_THE_VALUE)
