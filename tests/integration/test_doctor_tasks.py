"""What `eventlib doctor` finds on the changelogs: tasks whose time is ahead, and keys that grow with each request."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from eventlib import EventLog, open_log
from eventlib.operations.doctor.tasks import examine_memories, examine_task_times
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.keyed_state import KeyMetadata
from eventlib.runtime.records import POSITION_KEY, Positions
from eventlib.values import now_ms
from tests.apps.small_shop import make_shop, settle
from tests.integration.pausing import ordered, run
from tests.integration.reopening import everything


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with open_log("memory://", make_shop(set())) as log:
        await ordered(log, "a", 1)
        await settle(log)
        yield log


async def notes_of(log: EventLog) -> TaskNotes:
    notes = TaskNotes(log)
    await notes.refresh()
    return notes


async def test_a_task_whose_time_is_ahead_is_named(log: EventLog) -> None:
    assert await examine_task_times(await notes_of(log)) == []
    record = next(each for each in await everything(log, "orders.changelog") if each.key == POSITION_KEY.encode())
    positions = log.codec.decode(Positions, record.value or b"")
    ahead = replace(positions, at_ms=now_ms() + 3_600_000)
    await log.port.append([record.replace(offset=-1, value=log.codec.encode(ahead))])
    (found,) = await examine_task_times(await notes_of(log))
    assert found.verdict == "warning"
    assert f"orders/{record.partition} is ahead of this machine's clock, by up to 3,600 s" in found.what
    assert "eventlib reset-clock orders --dry-run" in found.remedy


async def test_a_key_that_remembers_many_requests_is_named(log: EventLog) -> None:
    assert await examine_memories(log) == []
    async with run(log) as runtime:
        await ordered(log, "a", *range(2, 400))
        await runtime.idle()
    assert await examine_memories(log) == [], "a key does not grow with its requests"
    (state,) = {
        each.key: each for each in await everything(log, "orders.changelog") if each.key == b"state/order/a"
    }.values()
    memory = KeyMetadata(answered={f"{number:032x}": "0" * 16 for number in range(400)})
    await log.port.append([state.replace(offset=-1, headers=memory.headers)])
    (found,) = await examine_memories(log)
    assert found.verdict == "warning"
    assert "orders: order 'a' writes 2" in found.what
    assert "nothing has to be done" in found.remedy
    async with run(log) as runtime:
        await ordered(log, "a", 400)
        await runtime.idle()
    assert await examine_memories(log) == []
