"""What goes wrong with partitions on a real cluster is said at the start, or by the doctor, with what to do about it.

Each fault is made by somebody else's client: topics with other counts or settings, records by another partitioner.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Never

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from analytics.archiving import archive
from eventlib import Decider, Event, EventLog, Publication, Runtime, Service, WiringError, open_log
from eventlib.cli import run
from eventlib.devtools.kafka import Cluster
from eventlib.errors import TopicMismatch
from eventlib.ground.tasks import cancelled
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.topic import PARTITIONERS, Topic
from eventlib.operations.doctor.examination import examine
from eventlib.replay import replay
from eventlib.runtime.parking.parked import parked_facts
from services import shop
from services.order.events import CancelSubmitted
from tests.integration.calling_app import Asked, Phone, three_services

ORDERS = Topic("order.requests")


@dataclass(frozen=True)
class Nothing:
    """No state."""


def physical(kafka_url: str, topic: str) -> str:
    return kafka_url.rpartition("=")[2] + topic


def start(kafka_url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Start the services, which cannot, and return what that says."""
    capsys.readouterr()
    assert run(["run", "--log", kafka_url]) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    return said


async def diagnosed(kafka_url: str, check: str) -> list[tuple[str, str, str]]:
    found = await examine(kafka_url, shop, "var/state")
    return [(each.verdict, each.what, each.remedy) for each in found if each.check == check]


async def test_more_partitions_for_a_topic_in_use(
    kafka_url: str, kafka_admin: AIOKafkaAdminClient, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_log(kafka_url, shop) as log:
        before = await log.publish(CancelSubmitted(order_id="1"))
        name = physical(kafka_url, "order.requests")
        await kafka_admin.create_partitions({name: NewPartitions(12)})
        async with asyncio.timeout(120):
            while await partitions_of(kafka_admin, name) != 12:  # a broker hears of it a moment later
                await asyncio.sleep(0.05)
        await log.port.topics()  # it sees them now
        after = [await log.publish(CancelSubmitted(order_id="1")) for _ in range(3)]
        assert {position.partition for position in after} == {before.partition}, "who runs goes on as it was declared"
    said = await asyncio.to_thread(start, kafka_url, capsys)
    assert "'order.requests' has 12 partitions on the log, but is declared with 8" in said
    assert "declare a new topic" in said
    remedy = "A key's events would be spread over two partitions, so this is not changed in place: declare a new topic"
    remedy += (
        " (for example 'order.requests.v2'), replay the old one into it, and move its consumers and producers over"
    )
    assert await diagnosed(kafka_url, "topics") == [
        (
            "error",
            "topic 'order.requests' has 12 partitions on the log, but is declared with 8",
            remedy,
        )
    ]


async def test_topics_that_a_service_reads_together_and_that_do_not_fit(
    kafka_url: str, kafka_admin: AIOKafkaAdminClient, capsys: pytest.CaptureFixture[str]
) -> None:
    class Asked(Event, topic=Topic("pitfall.asked", partitions=4), key="name"):
        name: str

    class Answered(Event, topic=Topic("pitfall.answered", partitions=6), key="name"):
        name: str

    decider = Decider("pitfall", state=Nothing, key="name")

    @decider.on(Asked, Answered)
    def nothing(_state: Nothing, _event: Asked | Answered) -> list[Never]:
        return []

    with pytest.raises(
        WiringError, match=r"pitfall.answered has 6, pitfall.asked has 4.*give these topics equal counts"
    ):
        Service("pitfall", deciders=[decider])
    await kafka_admin.create_topics([NewTopic(physical(kafka_url, "payments"), 4, 1)])  # declared right, and made wrong
    said = await asyncio.to_thread(start, kafka_url, capsys)
    assert "'payments' has 4 partitions on the log, but is declared with 8" in said


async def test_another_partitioner_of_a_topic(kafka_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await KafkaLog.open(kafka_url)
    try:
        await log.create_topics([ORDERS])
        monkeypatch.setitem(PARTITIONERS, "sum", lambda key, partitions: sum(key) % partitions)
        with pytest.raises(TopicMismatch, match="the partitioner 'murmur2' on the log, but is declared with 'sum'"):
            await log.create_topics([Topic("order.requests", partitioner="sum")])
    finally:
        await log.close()


async def test_records_of_a_client_with_another_partitioner(kafka_url: str, broker: Cluster) -> None:
    async with open_log(kafka_url, shop) as log:
        there = await log.publish(CancelSubmitted(order_id="1"))
        (record,) = await log.port.read(there.topic, there.partition, there.offset, 1)
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", b"x1"),
            ("ce_type", b"CancelSubmitted"),
            ("ce_source", b"them"),
        ]
        headers += [("ce_correlationid", b"x1"), ("traceparent", (record.traceparent or "").encode())]
        elsewhere = (there.partition + 1) % 8
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as stranger:
            await stranger.send_and_wait(
                physical(kafka_url, there.topic), record.value, record.key, partition=elsewhere, headers=headers
            )
        async with Runtime(log, ports={}, services=["order"]) as runtime, asyncio.timeout(120):
            reasons = await parked(log, runtime)
    assert reasons == [f"key '1' belongs in partition {there.partition}: was it written with another partitioner?"]


async def parked(log: EventLog, runtime: Runtime) -> list[str]:
    await runtime.idle()
    found = [await log.port.read("order.parked", partition, 0, 10) for partition in range(8)]
    return [str(parked_facts(record)["reason"]) for records in found for record in records]


async def test_a_key_that_has_most_of_the_events(kafka_url: str) -> None:
    async with open_log(kafka_url, shop) as log:
        for _ in range(10):
            await log.publish_many([Publication(CancelSubmitted(order_id=f"{number}")) for number in range(150)])
        assert await diagnosed(kafka_url, "keys") == [("ok", "no key has far more events than others", "")]
        await log.publish_many([Publication(CancelSubmitted(order_id="hot")) for _ in range(1_500)])
    ((verdict, what, remedy),) = await diagnosed(kafka_url, "keys")
    assert verdict == "warning"
    assert what.startswith("topic 'order.requests': key 'hot' has about ")
    assert 40 < int(what.partition("about ")[2].partition("%")[0]) < 60
    assert f"in partition {ORDERS.partition_of(b'hot')} of 8" in what
    assert "finer key" in remedy


async def timestamp_type(kafka_admin: AIOKafkaAdminClient, topic: str) -> str:
    (answer,) = await kafka_admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    (found,) = answer.resources
    kinds = [str(value) for name, value, *_ in found[4] if name == "message.timestamp.type"]
    return kinds[0]


async def partitions_of(kafka_admin: AIOKafkaAdminClient, topic: str) -> int:
    (found,) = await kafka_admin.describe_topics([topic])
    return len(found["partitions"])


async def test_times_that_brokers_give(
    kafka_url: str, kafka_admin: AIOKafkaAdminClient, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_log(kafka_url, shop):
        pass
    name = physical(kafka_url, "orders")
    resource = ConfigResource(ConfigResourceType.TOPIC, name, {"message.timestamp.type": "LogAppendTime"})
    await kafka_admin.alter_configs([resource])
    async with asyncio.timeout(120):
        while await timestamp_type(kafka_admin, name) != "LogAppendTime":  # a broker hears of it a moment later
            await asyncio.sleep(0.05)
    said = await asyncio.to_thread(start, kafka_url, capsys)
    assert "topic 'orders' has message.timestamp.type=LogAppendTime" in said
    assert "set it to CreateTime" in said
    found = [each for each in await diagnosed(kafka_url, "topics") if each[0] == "error"]
    assert [remedy for _, _, remedy in found] == [
        "kafka-configs.sh --alter --add-config message.timestamp.type=CreateTime"
    ]


async def test_a_partition_that_begins_with_an_aborted_transaction_has_lost_nothing(
    kafka_url: str, broker: Cluster, tmp_path: Path
) -> None:
    """Its oldest record stands after its start: who replays the log, or its archive, knows that nothing was dropped."""
    choreography, phone = three_services(set()), Phone()
    phone.free.set()
    async with open_log(kafka_url, choreography) as log:
        async with Runtime(log, ports={"phone": phone}) as runtime:
            await runtime.idle()
            await abort_in(
                broker, [(physical(kafka_url, name), partition) for name in ("asks", "calls") for partition in (0, 1)]
            )
            await log.publish_many([Publication(Asked(name=name)) for name in "abcdef"])
            await runtime.idle()
        for partition in (0, 1):
            assert await log.port.start("asks", partition) > await log.port.log_start("asks", partition) == 0
        assert (await replay(log)).differences == 0
        done = await archive(log.port, tmp_path / "archive")
    assert done.lost == ()
    async with open_log(f"archive:{tmp_path}/archive", choreography) as log:
        assert (await replay(log)).differences == 0


async def abort_in(broker: Cluster, places: list[tuple[str, int]]) -> None:
    """Write to partitions in a transaction that is aborted."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=token_hex(4)) as stranger:
        await stranger.begin_transaction()
        for topic, partition in places:
            await stranger.send_and_wait(topic, b"aborted", partition=partition)
        await stranger.abort_transaction()


async def test_a_poll_that_does_not_wait_lets_what_fetches_run(kafka_url: str) -> None:
    """A task with a due deadline polls so until it has what is on the log: it would otherwise never come."""
    async with open_log(kafka_url, shop) as log:
        reader = log.port.reader({("order.requests", 0): 0})
        turns = 0

        async def fetching() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        assert await reader.poll(1, 0) == []  # it knows the partition's end by now
        other = asyncio.create_task(fetching())
        for _ in range(100):
            assert await reader.poll(1, 0) == []
        await cancelled(other)
        await reader.close()
        assert turns > 50
