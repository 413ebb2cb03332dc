"""Topics on Kafka: with the settings of their declarations, beside those of others, and refused where they do not fit."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from eventlib.devtools.kafka import Cluster
from eventlib.errors import ContractError, TopicMismatch, WiringError
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.options import parse_url
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

PATIENCE_S = 60.0


def record(topic: str, value: bytes) -> Record:
    return Record(topic, 0, -1, now_ms(), b"k", value)


@pytest_asyncio.fixture
async def log(kafka_url: str) -> AsyncIterator[KafkaLog]:
    log = await KafkaLog.open(kafka_url)
    yield log
    await log.close()


async def settings(kafka_admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    (answer,) = await kafka_admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    return {key: value for key, value, *_ in answer.resources[0][4]}


def physical(kafka_url: str, topic: str) -> str:
    return parse_url(kafka_url)[1].prefix + topic


async def test_a_topic_has_the_settings_that_follow_from_its_declaration(
    log: KafkaLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient
) -> None:
    await log.create_topics(
        [
            Topic("kept", partitions=3, max_event_bytes=5_000),
            Topic("newest", compacted=True),
            Topic("hour", retention=timedelta(hours=1)),
        ]
    )
    kept, newest, hour = [await settings(kafka_admin, physical(kafka_url, name)) for name in ("kept", "newest", "hour")]
    assert (kept["cleanup.policy"], kept["retention.ms"], kept["retention.bytes"]) == ("delete", "-1", "-1")
    assert (kept["max.message.bytes"], kept["message.timestamp.type"]) == ("70536", "CreateTime")
    assert (newest["cleanup.policy"], newest["delete.retention.ms"]) == ("compact", "86400000")
    assert (newest["min.compaction.lag.ms"], newest["min.insync.replicas"]) == ("0", "1")
    assert (hour["retention.ms"], hour["segment.ms"]) == ("3600000", "900000")


async def test_a_changed_declaration_leaves_an_operators_settings_alone(
    log: KafkaLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient
) -> None:
    place = {"segment.bytes": "20000000", "retention.ms": "1000"}
    await kafka_admin.create_topics([NewTopic(physical(kafka_url, "a"), 2, 1, topic_configs=place)])
    await log.create_topics([Topic("a", partitions=2, retention=timedelta(days=7))])
    found = await settings(kafka_admin, physical(kafka_url, "a"))
    assert (found["segment.bytes"], found["retention.ms"]) == ("20000000", "604800000")
    assert (await log.topics())["a"] == Topic("a", partitions=2, retention=timedelta(days=7))


async def test_times_given_by_brokers_are_refused(
    log: KafkaLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient
) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    await kafka_admin.create_topics([NewTopic(physical(kafka_url, "a"), 2, 1, topic_configs=configs)])
    with pytest.raises(TopicMismatch, match="CreateTime"):
        await log.create_topics([Topic("a", partitions=2)])


async def test_another_partition_count_of_somebody_elses_topic_is_refused(
    log: KafkaLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient
) -> None:
    await kafka_admin.create_topics([NewTopic(physical(kafka_url, "a"), 3, 1)])
    with pytest.raises(TopicMismatch, match="3 partitions"):
        await log.create_topics([Topic("a", partitions=2)])


async def test_more_replicas_than_brokers_are_refused(kafka_url: str) -> None:
    log = await KafkaLog.open(f"{kafka_url}&replication_factor=2")
    try:
        with pytest.raises(WiringError, match="EVENTLIB_KAFKA_REPLICATION_FACTOR"):
            await log.create_topics([Topic("a")])
    finally:
        await log.close()


async def test_a_topic_that_another_process_has_deleted_is_created_again(log: KafkaLog, kafka_url: str) -> None:
    topic = Topic("a", partitions=1)
    await log.create_topics([topic])
    other = await KafkaLog.open(kafka_url)
    await other.delete_topics(["a"])
    await other.close()
    await log.create_topics([topic])
    assert await log.append([record("a", b"1")]) == [0]


async def test_where_all_was_deleted_reading_goes_on_with_what_comes(
    log: KafkaLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient
) -> None:
    await log.create_topics([Topic("a", partitions=1)])
    await log.append([record("a", b"%d" % each) for each in range(5)])
    await kafka_admin.delete_records({TopicPartition(physical(kafka_url, "a"), 0): RecordsToDelete(before_offset=5)})
    assert (await log.log_start("a", 0), await log.start("a", 0)) == (5, 5)
    reader = log.reader({("a", 0): 0})
    assert await asyncio.wait_for(reader.poll(10), PATIENCE_S) == []
    assert reader.take_lost() == {("a", 0): (0, 5)}
    polled = asyncio.create_task(reader.poll(10))
    assert await log.append([record("a", b"5")]) == [5]
    assert [each.offset for each in await asyncio.wait_for(polled, PATIENCE_S)] == [5]
    await reader.close()


async def test_two_processes_create_the_same_topics_at_once(log: KafkaLog, kafka_url: str) -> None:
    other = await KafkaLog.open(kafka_url)
    try:
        declared = [Topic(f"t{n}", partitions=2, latest=n % 2 == 0) for n in range(5)]
        await asyncio.gather(log.create_topics(declared), other.create_topics(declared))
        for handle in (log, other):
            assert {topic.name: topic for topic in declared} == await handle.topics()
    finally:
        await other.close()


async def test_what_others_write_has_its_place_as_its_id(
    log: KafkaLog, kafka_url: str, broker: Cluster, kafka_admin: AIOKafkaAdminClient
) -> None:
    await kafka_admin.create_topics([NewTopic(physical(kafka_url, "theirs"), 1, 1)])
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="gzip") as stranger:
        for n in range(3):
            await stranger.send_and_wait(
                physical(kafka_url, "theirs"), b"%d" % n, headers=[("h", b"x")], timestamp_ms=n
            )
    found = await log.read("theirs", 0, 0, 10)
    assert [(r.event_id, r.value, r.type, r.timestamp_ms) for r in found] == [
        (f"theirs/0/{n}", b"%d" % n, None, n) for n in range(3)
    ]
    assert found[0].headers == (("h", b"x"),)


async def test_what_is_too_large_for_the_brokers_is_refused_alone(log: KafkaLog) -> None:
    await log.create_topics([Topic("a", partitions=1, max_event_bytes=1_000)])
    good = Record("a", 0, -1, now_ms(), b"k", b"x")
    large = good.replace(headers=(("h", b"x" * 70_000),))
    asked = [log.append([each]) for each in (good, large, good)]
    first, refused, last = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(refused, ContractError)
    assert (first, last) == ([0], [1])
    claim = await log.seize("s", 0)
    with pytest.raises(ContractError):
        await log.append([good, large], claim)
    await log.append([good], claim)
    assert len(await log.read("a", 0, 0, 10)) == 3
