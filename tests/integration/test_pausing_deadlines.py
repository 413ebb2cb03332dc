"""Deadlines of what is paused wait, and pass behind the inputs that waited."""

import asyncio
from collections.abc import Callable

import pytest

from eventlib import EventLog, Publication
from eventlib.operations.pausing import pause, resume, settled
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime import runner
from eventlib.values import now_ms
from tests.apps.small_shop import Expired, Ordered, Outside, make_shop, settle
from tests.integration.pausing import CHARGES, DECIDER, HOUR_S, KEY, SERVICE, WHY, kinds, noted, ordered, run
from tests.integration.reopening import Opened, events
from tests.integration.rerunning import run_it_again


async def ordered_later(log: EventLog, key: str) -> None:
    """Publish a request as it is recorded once hours have passed."""
    await log.port.append(log.records_of(Publication(Ordered(order_id=key, cents=9)), now_ms() + 2 * HOUR_S * 1_000))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets hours pass for the tasks."""
    late_ms = [0]
    monkeypatch.setattr(runner, "now_ms", lambda: now_ms() + late_ms[0])
    return lambda: late_ms.append(late_ms.pop() + 2 * HOUR_S * 1_000)


@pytest.mark.parametrize("target", [SERVICE, DECIDER, KEY], ids=str)
async def test_a_deadline_passes_behind_the_inputs_that_waited(
    opened: Opened, target: PauseTarget, later: Callable[[], None]
) -> None:
    """The answer of the charge waits too, and the deadline that fell due before it no longer stands."""
    gateway = Outside(gate=asyncio.Event())
    async with opened(make_shop(set())) as log:
        async with run(log, gateway) as runtime:
            await ordered(log, "a", 1, patience_s=HOUR_S)
            while not gateway.calls:
                await asyncio.sleep(0.01)
            await pause(log, target, *WHY)
            await settled(log, target, 60)
            later()
            assert gateway.gate is not None
            gateway.gate.set()
            await runtime.idle()
        async with run(log) as runtime:
            await runtime.idle()
            assert await kinds(log) == ["ChargeAsked", "Charged"]
            await resume(log, target, "os:ada")
            await settled(log, target, 60)
            await runtime.idle()
        await settle(log)
        assert "Expired" not in await kinds(log)


async def test_a_deadline_of_what_is_paused_waits(opened: Opened, later: Callable[[], None]) -> None:
    async with opened(make_shop(set())) as log:
        await pause(log, CHARGES, *WHY)
        async with run(log) as runtime:
            for key in "ab":
                await ordered(log, key, 1, patience_s=HOUR_S)
            await runtime.idle()
        await pause(log, KEY, *WHY)
        later()
        async with run(log):
            while not await events(log, "expiries"):
                await asyncio.sleep(0.02)
            assert await events(log, "expiries") == [Expired(order_id="b")], "an effect that is paused stops no clock"
            await resume(log, KEY, "os:ada")
            while len(await events(log, "expiries")) < 2:
                await asyncio.sleep(0.02)
        await settle(log)


async def test_a_rerun_holds_back_the_deadline_that_its_service_held_back(
    opened: Opened, later: Callable[[], None]
) -> None:
    async with opened(make_shop(set())) as log:
        async with run(log, Outside(refuses={"a"})) as runtime:
            await ordered(log, "a", 1, patience_s=HOUR_S)
            await runtime.idle()
            await pause(log, KEY, *WHY)
            await settled(log, KEY, 60)
            later()
            home = log.choreography.service("orders").inputs[0].partition_of
            for beside in [key for key in map(str, range(100)) if home(key.encode()) == home(b"a")][:3]:
                await ordered_later(log, beside)  # transactions of the same task
                await runtime.idle()
            await ordered_later(log, "a")  # without patience: nothing is due any more
            await runtime.idle()
            await resume(log, KEY, "os:ada")
            await settled(log, KEY, 60)
            await runtime.idle()
        assert (await noted(log)).count("a") == 2
        assert await events(log, "expiries") == []
        differs = await run_it_again(log, "orders")
        assert differs.is_none, differs
