"""What `eventlib doctor` finds on the changelogs: tasks whose time is ahead."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from eventlib import EventLog, open_log
from eventlib.operations.doctor.content import examine_task_times
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.records import POSITION_KEY, Positions
from eventlib.values import now_ms
from tests.apps.small_shop import make_shop, settle
from tests.integration.pausing import ordered
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
