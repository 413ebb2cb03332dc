"""What is parked for a damaged input: under its key where a second column confirms it, else alone."""

from collections.abc import AsyncIterator

import pytest

from eventlib import EventLog, open_log
from eventlib.errors import DamagedRecord
from eventlib.model.record import Record
from eventlib.runtime.inputs import damaged_input
from services import shop
from services.order.events import ProductDelisted


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", shop) as log:
        yield log


async def published(log: EventLog) -> Record:
    await log.publish(ProductDelisted(sku="LAMP"))
    topic = next(each for each in log.choreography.topics if each.name == "products")
    for partition in range(topic.partitions):
        if found := await log.port.read(topic.name, partition, 0, 1):
            return found[0]
    raise AssertionError


def parked_key(record: Record, log: EventLog) -> bytes | None:
    damage = DamagedRecord("changed", *record.topic_partition, record.offset, record.offset + 1, record)
    return damaged_input(damage, log, 1).key


async def test_a_key_that_the_event_or_the_subject_has_too_keeps_its_order(log: EventLog) -> None:
    record = await published(log)
    assert parked_key(record, log) == b"LAMP"
    assert parked_key(record.replace(value=b"changed", subject="LAMP"), log) == b"LAMP"


async def test_a_key_that_nothing_confirms_or_that_belongs_elsewhere_waits_alone(log: EventLog) -> None:
    record = await published(log)
    place = f"{record.topic}/{record.partition}/{record.offset}".encode()
    changed = [
        record.replace(key=b"LAMQ", subject="LAMP"),
        record.replace(key=b"LAMP", value=b"changed", subject=None),
        record.replace(partition=(record.partition + 1) % 8),
        record.replace(topic="nowhere"),
    ]
    for each in changed:
        expected = f"{each.topic}/{each.partition}/{each.offset}".encode()
        assert parked_key(each, log) == expected
    assert parked_key(record.replace(key=None), log) == place
