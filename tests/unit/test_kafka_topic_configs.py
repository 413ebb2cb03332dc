"""From a topic's declaration to Kafka's configs, and back to what an operator sees of it."""

from datetime import timedelta

import pytest

from eventlib import Topic
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.topic_configs import creation_configs, declared_configs, topic_from

OPTIONS = KafkaOptions()
TOPICS = [
    Topic("plain", partitions=3),
    Topic("kept", retention=timedelta(hours=1), retention_bytes=5_000_000),
    Topic("emptied", retention=timedelta(0), retention_bytes=0),
    Topic("compacted", compacted=True, max_event_bytes=2_000_000),
    Topic("tiny", max_event_bytes=1),
]


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_declaration_comes_back_from_its_configs(topic: Topic) -> None:
    assert topic_from(topic.name, topic.partitions, creation_configs(topic, 3, OPTIONS), {}) == topic


def test_what_has_no_config_comes_back_from_its_declaration() -> None:
    topic = Topic("t", latest=True)
    declared = {"latest": True, "partitioner": "murmur2"}
    assert topic_from("t", topic.partitions, declared_configs(topic), declared) == topic


def test_a_compacted_topic_may_be_compacted_at_once() -> None:
    assert declared_configs(TOPICS[3])["min.compaction.lag.ms"] == "0"
    assert declared_configs(TOPICS[3])["delete.retention.ms"] == str(24 * 3_600_000), "a tombstone stays a day"
    assert "min.compaction.lag.ms" not in declared_configs(TOPICS[0])


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_segment_is_part_of_what_is_kept_holds_an_event_and_has_a_size_that_kafka_takes(topic: Topic) -> None:
    configs = creation_configs(topic, 3, OPTIONS)
    size, age_ms = int(configs["segment.bytes"]), int(configs["segment.ms"])
    assert int(configs["max.message.bytes"]) <= size < 2**31
    assert age_ms <= timedelta(weeks=1) / timedelta(milliseconds=1)
    if topic.retention_bytes:
        assert size * 4 == topic.retention_bytes
    if topic.retention:
        assert age_ms * 4 == topic.retention / timedelta(milliseconds=1)


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, "1"), (2, "1"), (3, "2")])
def test_an_append_waits_for_all_replicas_but_one(replicas: int, in_sync: str) -> None:
    assert creation_configs(TOPICS[0], replicas, OPTIONS)["min.insync.replicas"] == in_sync
    fixed = KafkaOptions(min_insync_replicas=3)
    assert creation_configs(TOPICS[0], replicas, fixed)["min.insync.replicas"] == "3"
