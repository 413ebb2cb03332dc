"""An owner on an SQLite log whose event loop is blocked: it keeps its tasks within a bound, and loses them after it."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from eventlib.errors import OwnershipLost
from eventlib.log.sqlite.log import SqliteLog
from tests.contract.processes import IMPATIENT, TOPICS, part

pytestmark = pytest.mark.heavy

PATIENCE_S = 60.0


@pytest.mark.parametrize("max_blocked_s", [60.0, 0.1])
async def test_a_blocked_owner_keeps_its_tasks_within_the_bound(tmp_path: Path, max_blocked_s: float) -> None:
    place, options = tmp_path / "log.db", replace(IMPATIENT, max_blocked_s=max_blocked_s)
    owns, freed = threading.Event(), threading.Event()

    async def block() -> bool:
        """Own the tasks, block the loop of this thread, and return whether they are still owned."""
        log = await SqliteLog.open(place, options=options)
        await log.create_topics(TOPICS)
        member = await log.join("s", 2)
        held = await member.changed({})
        owns.set()
        assert freed.wait(PATIENCE_S)
        try:
            await log.append([part("owner", 0, 0)], held[0])
        except OwnershipLost:
            return False
        finally:
            await log.close()
        return True

    blocked = asyncio.create_task(asyncio.to_thread(asyncio.run, block()))
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.to_thread(owns.wait, PATIENCE_S)
        other = await SqliteLog.open(place, options=options)
        member = await other.join("s", 2)
        try:
            async with asyncio.timeout(2.5 * IMPATIENT.lease_s if max_blocked_s > 1 else PATIENCE_S):
                taken = await member.changed({})
        except TimeoutError:
            taken = {}
        freed.set()
        assert await blocked == (max_blocked_s > 1)
        assert bool(taken) == (max_blocked_s < 1)
        assert all(member.was_lost(claim) for claim in taken.values())
        await other.close()
