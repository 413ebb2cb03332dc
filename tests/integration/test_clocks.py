"""One wrong clock: no record from the future sets a task's time, and a deadline passes after a clock has jumped."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from eventlib import EventLog, Publication, open_log
from eventlib.model.record import Record
from eventlib.queries.parked import parkings
from eventlib.runtime import runner
from eventlib.values import now_ms
from tests.apps.small_shop import Expired, Ordered, Outside, make_shop, retry, settle
from tests.integration.pausing import HOUR_S, kinds, ordered, run
from tests.integration.reopening import events, everything
from tests.integration.rerunning import run_it_again

YEAR_MS = 365 * 24 * HOUR_S * 1_000


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", make_shop(set())) as log:
        await settle(log)
        yield log


async def is_of_today(log: EventLog) -> bool:
    journal = await everything(log, "orders.journal")
    return max(record.timestamp_ms for record in journal) <= now_ms()


async def from_the_future(log: EventLog, key: str, patience_s: float | None = None) -> Record:
    """Publish an order by a clock that is a year ahead."""
    order = Publication(Ordered(order_id=key, cents=9, patience_s=patience_s))
    (record,) = log.records_of(order, now_ms() + YEAR_MS)
    await log.port.append([record])
    return record


async def test_an_input_from_the_future_is_parked_and_a_retry_handles_it_as_of_when_it_came(log: EventLog) -> None:
    await from_the_future(log, "a", patience_s=0.001)
    await ordered(log, "b", 1)
    await settle(log)
    (waiting,) = await parkings(log)
    assert "ahead of the clock here" in waiting.reason
    assert "EVENTLIB_AHEAD_S" in waiting.reason
    assert await is_of_today(log)
    await retry(log, "order", "a")
    while "Expired" not in await kinds(log):
        await settle(log, Outside(refuses={"a"}))
    assert [each.effect for each in await parkings(log)] == ["ChargeAsked"]
    assert await is_of_today(log)


async def test_a_rerun_parks_what_its_service_parked_and_handles_it_when_that_did(log: EventLog) -> None:
    await from_the_future(log, "a")
    await ordered(log, "b", 1)
    await settle(log)
    await retry(log, "order", "a")
    await settle(log)
    differs = await run_it_again(log, "orders")
    assert differs.is_none, differs


async def test_a_start_behind_the_tasks_own_time_is_logged(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await ordered(log, "a", 1)
    await settle(log)
    assert "ahead of the clock" not in caplog.text
    monkeypatch.setattr(runner, "now_ms", lambda: now_ms() - HOUR_S * 1_000)
    async with run(log) as runtime:
        await runtime.idle()
    assert "its last transaction is 3,600 s ahead of the clock here" in caplog.text


async def test_what_is_no_event_does_not_set_the_time_either(log: EventLog) -> None:
    record = await from_the_future(log, "a")
    await log.port.append([record.replace(value=b"{}", type="Ping", id="ping")])
    await ordered(log, "a", 1)
    await settle(log)
    assert await is_of_today(log)


async def test_a_retry_on_a_control_topic_by_a_wrong_clock_is_done_and_sets_no_time(log: EventLog) -> None:
    await from_the_future(log, "a")
    await settle(log)
    await retry(log, "order", "a")
    control = log.choreography.services[0].control
    (request,) = await everything(log, control.name)
    await log.port.append([request.replace(timestamp_ms=now_ms() + YEAR_MS)])
    await settle(log)
    assert await is_of_today(log)
    assert not await parkings(log)


async def test_a_deadline_passes_soon_after_the_clock_has_jumped(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_ms = [0]
    monkeypatch.setattr(runner, "now_ms", lambda: now_ms() + slept_ms[0])
    monkeypatch.setattr(runner, "_LOOK_AT_CLOCK_S", 0.01)
    async with run(log, Outside(refuses={"a"})) as runtime:
        await log.publish(Ordered(order_id="a", cents=1, patience_s=HOUR_S))
        await runtime.idle()
        slept_ms[0] = HOUR_S * 1_000 + 1
        while not await events(log, "expiries"):
            await asyncio.sleep(0.01)
    assert await events(log, "expiries") == [Expired(order_id="a")]


def test_a_task_that_waits_for_a_deadline_looks_at_the_clock_every_few_seconds() -> None:
    assert 0 < runner._LOOK_AT_CLOCK_S <= 5  # noqa: SLF001  a test of minutes would tell it too
