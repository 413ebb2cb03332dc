"""A rerun beside time: deadlines that pass or do not, a time up to which it runs, and a service that goes on."""

import asyncio

import pytest

from eventlib import EventLog, OutcomeUnknown
from eventlib.errors import ContractError
from eventlib.operations.reprocessing import follower
from eventlib.state.memory import MemoryStores
from tests.apps.market import BasketSent, Code, Till, market
from tests.integration.reopening import Opened, events, everything
from tests.integration.rerunning import (
    by_decider,
    random_baskets,
    run_again,
    run_it_again,
    said_by_rerun,
    send,
    serving,
    settle,
    shelves_of,
    stock,
)


async def test_a_deadline_that_the_service_did_not_have_passes_in_its_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "PATIENCE_MS", 20)
    async with opened(market()) as log:
        await stock(log, A=9)
        await settle(log)
        till = Till(is_closed=True)
        await send(log, [("slow", "A")])
        await until_asked(log, till)
        for name in beside(log, "slow"):  # what the task does afterwards shows that it was there all the time
            await asyncio.sleep(0.1)
            await send(log, [(name, "A")])
            await until_asked(log, till)
        till.is_closed = False
        await settle(log, till)
    async with opened(market(Code(reminds_after_s=0))) as log:
        found = await run_it_again(log, "store")
        reminders = [r for r in await everything(log, "again.said.reminders") if r.subject == "slow"]
        assert len(reminders) == 1
        charged = next(r for r in await everything(log, "charges") if r.type == "Charged" and r.subject == "slow")
        assert reminders[0].timestamp_ms < charged.timestamp_ms, "before it was answered"
        assert by_decider(found)["basket"][0] == 0
        again = await run_it_again(log, "store", "twice")
        assert by_decider(again) == by_decider(found), "each time the same"


async def test_a_deadline_that_was_called_off_while_the_service_was_away_does_not_pass(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "PATIENCE_MS", 20)
    code = Code(reminds_after_s=1)
    async with opened(market(code)) as log:
        await stock(log, A=9)
        await settle(log)
        till = SilentAtFirst(is_closed=True)
        await send(log, [("moved", "A")])
        await until_asked(log, till)
        async with serving(log, till):
            await send(log, [(beside(log, "moved")[0], "A")])
            while not await events(log, "closed"):
                await asyncio.sleep(0.01)
        await asyncio.sleep(1.1)
        await log.publish(BasketSent(basket="moved", lines=("A",)), idempotency_key="once more")
        till.is_closed = False
        await settle(log, till)
        if await events(log, "reminders"):
            pytest.skip("this machine was too slow to stop the service before the deadline")
        found = await run_it_again(log, "store")
        assert found.is_none, found


class SilentAtFirst(Till):
    """While it is closed, it answers all but the first request."""

    async def charge(self, key: str, cents: int) -> int:
        self.charges.setdefault(key, cents)
        if self.is_closed and key == next(iter(self.charges)):
            self.calls += 1
            raise OutcomeUnknown("nobody there")
        self.calls += 1
        return cents


def beside(log: EventLog, name: str) -> list[str]:
    """Return the names of two more baskets of the same task."""
    task_of = log.choreography.service("store").inputs[0].partition_of
    return [each for each in map(str, range(99)) if task_of(each.encode()) == task_of(name.encode())][:2]


async def until_asked(log: EventLog, till: Till) -> None:
    """Run the services until the outside is asked once more; it does not answer."""
    calls = till.calls
    async with serving(log, till):
        while till.calls == calls:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # and have read what they have said


async def test_up_to_a_time_it_knows_what_was_known_then(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=5)
        await send(log, [("1", "A")])
        await settle(log)
        until_ms = max(record.timestamp_ms for record in await everything(log, "store.journal"))
        await asyncio.sleep(0.01)
        await send(log, [("2", "AA")])
        await settle(log)
        found = await run_it_again(log, "store", until_ms=until_ms)
        assert by_decider(found) == {"basket": (0, 0, 0), "shelf": (0, 0, 0)}
        assert found.not_yet == 2, "the shelf, and the second basket"
        assert await shelves_of(log, "again") == {"A": 4}
        with pytest.raises(ContractError, match="begun with another --since or --until"):
            await run_it_again(log, "store")


async def test_it_goes_on_with_a_service_that_goes_on(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=40, B=40)
        async with serving(log) as runtime:
            await send(log, random_baskets(10, 1))
            await runtime.idle()
            for turn in range(2, 5):
                await asyncio.gather(send(log, random_baskets(10, turn)), run_it_again(log, "store"))
            await runtime.idle()
            found = await run_it_again(log, "store")
            assert found.is_none, found


async def test_it_follows_until_it_is_stopped(opened: Opened) -> None:
    async with opened(market()) as log:
        await stock(log, A=40)
        await send(log, [("0", "A")])
        await settle(log)
        following = asyncio.create_task(run_again(log, MemoryStores(), follow=True))
        async with serving(log) as runtime:
            for number in range(1, 6):
                await send(log, [(str(number), "A")])
                await runtime.idle()
        async with asyncio.timeout(120):
            while len(await said_by_rerun(log, "closed")) < 6:
                await asyncio.sleep(0.02)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert (await run_it_again(log, "store")).is_none
