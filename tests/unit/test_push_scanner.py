"""The inputs and outputs of one task that others push: what is not decoded twice, and what is decoded all the same."""

from collections.abc import AsyncIterator

import pytest

from eventlib import EventLog, open_log
from eventlib.model.record import Record
from eventlib.replay.compare import Compare
from eventlib.replay.comparison import Describer, OutputQuery
from eventlib.replay.context import ReplayContext
from eventlib.replay.partition_buffer import Buffered
from eventlib.replay.push_scanner import CONSUMED, PushScanner
from eventlib.replay.report import Tally
from eventlib.replay.spilling_cache import Spill, spilling_caches
from eventlib.runtime.records import JournalEntry, Step
from tests.apps.small_shop import Noted, make_shop, record_of

TWO = [Noted(order_id="1", count=count) for count in (1, 2)]


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", make_shop(set())) as log:
        yield log


def records_of(log: EventLog) -> list[Record]:
    return [record_of(log, each).placed(offset) for offset, each in enumerate(TWO)]


def scanner_of(log: EventLog, partition: int) -> PushScanner:
    return PushScanner(log, log.choreography.service("orders"), partition)


async def test_an_output_has_the_event_of_now_where_the_bytes_are_equal_and_its_own_elsewhere(log: EventLog) -> None:
    records = records_of(log)
    now = [TWO[0], Noted(order_id="1", count=9)]
    scanner = scanner_of(log, records[0].partition)
    found = scanner.read(await scanner.load(records), now)
    assert found == list(zip(records, TWO, strict=True))
    assert found[0][1] is TWO[0]


async def test_an_input_has_the_event_that_another_replay_has_made_and_its_own_where_none_has(log: EventLog) -> None:
    records = records_of(log)
    scanner = scanner_of(log, records[0].partition)
    items = await scanner.load(records)
    made = items[0].event = Noted(order_id="1", count=1)
    await scanner.push([(item, CONSUMED) for item in items])
    found = await scanner.take(await scanner.cursor(records[0].topic_partition, 0), 1)
    assert [(item.record, scanner.event(item)) for item in found] == list(zip(records, TWO, strict=True))
    assert found[0].event is made


@pytest.mark.parametrize("version", ["then", "now"])
async def test_a_key_whose_inputs_changed_nothing_has_no_state(log: EventLog, version: str) -> None:
    """The runtime writes none, and whoever compares live states with these would miss one."""
    record, service = records_of(log)[0], log.choreography.service("orders")
    scanner, spill = scanner_of(log, record.partition), Spill()
    entries, describer = spilling_caches(service.deciders, spill), Describer(log.choreography)
    context = ReplayContext(log, scanner, entries, Tally(1), OutputQuery(), describer, "now")
    compare = Compare(service, record.partition, context)
    await scanner.push([(Buffered(record), CONSUMED)])
    steps = Step("begin", record.topic), Step("run", record.topic, record.offset, record.offset)
    await compare.replay(JournalEntry(version, record.timestamp_ms, steps, 0))
    assert context.tally.report(0).decisions == 1
    assert [*entries["order"].all()] == []
    spill.close()
