"""On a real broker: inputs that are gone or hidden are named, whatever other clients do to the topics."""

import asyncio
from collections.abc import AsyncIterator
from secrets import token_hex

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete

from eventlib import EventLog, Runtime, RuntimeConfig, open_log
from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.options import parse_url
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.status import StatusReader
from tests.handling import handle_all
from tests.integration.test_losses import APP, HEARD, Heard, lost, times
from tests.waiting import until

PATIENCE_S = 120.0


@pytest_asyncio.fixture
async def log(kafka_url: str) -> AsyncIterator[EventLog]:
    async with open_log(kafka_url, APP) as opened:
        yield opened


@pytest.fixture
def config(tmp_path_factory: pytest.TempPathFactory) -> RuntimeConfig:
    return RuntimeConfig(compare_topics_s=0.2, state_dir=str(tmp_path_factory.mktemp("state")))


async def hear(log: EventLog, count: int) -> None:
    for _ in range(count):
        await log.publish(Heard(key="k"))


async def test_records_that_are_deleted_unread_are_named(
    log: EventLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient, config: RuntimeConfig
) -> None:
    await hear(log, 2)
    await handle_all(log, config=config)
    await hear(log, 5)
    place = TopicPartition(parse_url(kafka_url)[1].prefix + "heard", 0)
    await kafka_admin.delete_records({place: RecordsToDelete(before_offset=7)})
    assert any("has lost inputs: heard/0" in each for each in complaints(await StatusReader(log).read(), Limits()))
    await hear(log, 3)
    await handle_all(log, config=config)
    (step,) = await lost(log)
    assert (step.first, step.last) == (2, 7)
    assert await times(log) == 2 + 3


@pytest.mark.parametrize("rests", [True, False], ids=["while it rests", "while it runs"])
async def test_a_topic_that_is_created_again_is_read_from_its_start(
    log: EventLog, config: RuntimeConfig, *, rests: bool
) -> None:
    await hear(log, 4)
    async with Runtime(log, config=config) as runtime, asyncio.timeout(PATIENCE_S):
        await runtime.idle()
        if not rests:
            await recreate(log)
            await until(lambda: _is_named(log))
    if rests:
        await recreate(log)
    await handle_all(log, config=config)
    (step,) = await lost(log)
    assert (step.first, step.last) == (4, 0)
    assert "the topic was deleted and created again" in step.detail
    assert await times(log) == 4 + 3


async def recreate(log: EventLog) -> None:
    """Delete the topic and create it again, with other records, as another client does."""
    async with open_log(log.port.url, APP) as other:
        await other.port.delete_topics(["heard"])
        await other.port.create_topics([HEARD])
        await hear(other, 3)


async def _is_named(log: EventLog) -> bool:
    return len(await lost(log)) == 1


async def test_records_behind_an_open_transaction_count_as_lag_and_their_writer_is_named(
    log: EventLog, broker: Cluster, kafka_url: str, config: RuntimeConfig
) -> None:
    await hear(log, 1)
    await handle_all(log, config=config)
    name = f"hanging-{token_hex(4)}"
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(parse_url(kafka_url)[1].prefix + "heard", b"x", key=b"k", partition=0)
            status = await StatusReader(log).read()
            (held,) = status.held
            (by,) = held.by
            assert (held.topic, held.offsets, by.first) == ("heard", 1, 1)
            assert by.by.startswith(f"{name} (producer ")
            assert status.tasks[0].lag == 1
            assert any(name in each for each in complaints(status, Limits(behind_s=-1)))
    finally:
        await producer.stop()
    assert (await StatusReader(log).read()).held == []


async def test_partitions_that_are_added_while_it_runs_are_named(
    log: EventLog, kafka_url: str, kafka_admin: AIOKafkaAdminClient, config: RuntimeConfig
) -> None:
    async with Runtime(log, config=config) as runtime:
        await runtime.idle()
        await kafka_admin.create_partitions({parse_url(kafka_url)[1].prefix + "heard": NewPartitions(2)})

        async def is_seen() -> bool:
            return "is declared with 1" in runtime.topic_faults.get("heard", "")

        await until(is_seen)
    assert any("heard has 2 partitions" in each for each in complaints(await StatusReader(log).read(), Limits()))
