"""Pauses: what is paused waits, whole and in order, and goes on as if nothing had been; in memory and on disk."""

import asyncio
from collections.abc import Callable

import pytest

from eventlib import EventLog, Publication, RuntimeConfig
from eventlib.errors import ContractError
from eventlib.operations.pausing import pause, paused, resume, settled, what_waits
from eventlib.queries.parked import parkings
from eventlib.queries.pauses import PauseTarget, pauses
from eventlib.runtime import runner
from eventlib.values import now_ms
from tests.apps.small_shop import ChargeAsked, Charged, Expired, Ordered, Outside, make_shop, retry, settle, steps
from tests.integration.pausing import CHARGES, DECIDER, HOUR_S, KEY, SERVICE, WHY, kinds, noted, ordered, run
from tests.integration.reopening import Opened, events
from tests.integration.rerunning import run_it_again


@pytest.mark.parametrize("target", [SERVICE, DECIDER], ids=str)
async def test_inputs_of_what_is_paused_stay_unread_through_restarts(opened: Opened, target: PauseTarget) -> None:
    async with opened(make_shop(set())) as log:
        await ordered(log, "a", 1)
        await settle(log)
        await pause(log, target, *WHY)
        await ordered(log, "a", 2)
        await ordered(log, "b", 3)
    for _ in range(2):
        async with opened(make_shop(set())) as log:
            await settle(log)
            assert await noted(log) == ["a"]
            (found,) = await pauses(log)
            assert (found.target, found.by, found.reason, found.asked) == (target, *WHY, 0)
            assert found.tasks == log.choreography.service("orders").partitions
            assert (await what_waits(log, target)).inputs == 2
    async with opened(make_shop(set())) as log:
        await resume(log, target, "os:eve")
        await settle(log)
        assert sorted(await noted(log)) == ["a", "a", "b"]
        assert await pauses(log) == []
        assert len([each for each in await kinds(log) if each == "Charged"]) == 3


async def test_what_is_paused_before_it_first_runs_handles_nothing(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await ordered(log, "a", 1)
        await pause(log, SERVICE, *WHY)
        await settle(log)
        assert await noted(log) == []


async def test_running_tasks_take_a_pause_up_and_finish_what_is_under_way(opened: Opened) -> None:
    gateway = Outside(gate=asyncio.Event())
    async with opened(make_shop(set())) as log, run(log, gateway) as runtime:
        await ordered(log, "a", 1)
        while not gateway.calls:
            await asyncio.sleep(0.01)
        await pause(log, SERVICE, *WHY)
        assert (taken := await settled(log, SERVICE, 60)) is not None
        assert taken.asked == 0
        assert gateway.gate is not None
        gateway.gate.set()
        await ordered(log, "a", 2)
        await runtime.idle()
        assert (await noted(log), gateway.calls) == (["a"], ["a"])
        assert await kinds(log) == ["ChargeAsked", "Charged"]
        await resume(log, SERVICE, "os:ada")
        await settled(log, SERVICE, 60)
        await runtime.idle()
        assert (await noted(log), gateway.calls) == (["a", "a"], ["a", "a"])
        assert await kinds(log) == ["ChargeAsked", "Charged"] * 2


async def test_a_paused_key_waits_in_order_and_no_other_does(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await pause(log, KEY, *WHY)
        await ordered(log, "a", 1, 2, 3)
        await ordered(log, "b", 4)
        await settle(log)
        assert await noted(log) == ["b"]
        (parking,) = await parkings(log)
        assert (parking.key, parking.reason, parking.waiting) == ("a", "paused by os:ada: the bank migrates", 3)
        assert (await what_waits(log, KEY)).inputs == 3
        await retry(log, "order", "a")
        await settle(log)
        assert await noted(log) == ["b"], "a retry does not go round the pause"
        assert [step.detail for step in await steps(log) if step.kind == "refuse"] == [
            "order a is paused (os:ada: the bank migrates): resume it first"
        ]
    async with opened(make_shop(set())) as log:
        await resume(log, KEY, "os:ada")
        await ordered(log, "a", 5)
        await settle(log)
        assert [event.cents for event in await events(log, "charges") if isinstance(event, ChargeAsked)] == [
            4,
            1,
            2,
            3,
            5,
        ]
        assert (await parkings(log), await pauses(log)) == ([], [])
        differs = await run_it_again(log, "orders")
        assert differs.is_none, differs


async def test_a_key_that_was_parked_stays_so_when_its_pause_ends(opened: Opened) -> None:
    broken = {"a"}
    async with opened(make_shop(broken)) as log:
        await ordered(log, "a", 1)
        await settle(log)
        await pause(log, KEY, *WHY)
        await ordered(log, "a", 2)
        await settle(log)
        broken.clear()
        await resume(log, KEY, "os:ada")
        await settle(log)
        (parking,) = await parkings(log)
        assert (parking.reason, parking.waiting) == ("RuntimeError: a bug in the handler", 2)


async def test_paused_effects_use_up_no_attempt_and_inputs_go_on(opened: Opened) -> None:
    gateway, config = Outside(fails={"a": 2}), RuntimeConfig(pending_effects=2)
    async with opened(make_shop(set())) as log:
        await pause(log, CHARGES, *WHY)
        await ordered(log, "a", 1, 2, 3, 4, 5)
        for _ in range(2):
            async with run(log, gateway, config) as runtime:
                await runtime.idle()
            assert (gateway.calls, len(await noted(log))) == ([], 5)
        assert (await what_waits(log, CHARGES)).effects == 5
        await resume(log, CHARGES, "os:ada")
        async with run(log, gateway, config) as runtime:
            await runtime.idle()
        charged = [event for event in await events(log, "charges") if isinstance(event, Charged)]
        assert (len(charged), len({each.by for each in charged})) == (5, 5)
        assert len(gateway.calls) == 7


async def test_a_key_goes_on_only_after_its_service(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await pause(log, KEY, *WHY)
        await ordered(log, "a", 1)
        await settle(log)
        await pause(log, SERVICE, *WHY)
        with pytest.raises(ContractError, match="service orders is paused too"):
            await resume(log, KEY, "os:ada")
        await resume(log, SERVICE, "os:ada")
        await resume(log, KEY, "os:ada")
        await settle(log)
        assert await noted(log) == ["a"]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ({"decider": "nobody"}, "orders has no decider 'nobody': it has order"),
        ({"effect": "Nothing"}, "its effects are those of ChargeAsked"),
        ({"effect": "ChargeAsked", "key": "a"}, "not both"),
    ],
)
async def test_what_there_is_not_cannot_be_paused(opened: Opened, names: dict[str, str], complaint: str) -> None:
    async with opened(make_shop(set())) as log:
        with pytest.raises(ContractError, match=complaint):
            PauseTarget.of(log, "orders", **names)


async def test_a_pause_needs_a_reason_and_is_made_once(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        with pytest.raises(ContractError, match="give a reason"):
            await pause(log, SERVICE, "os:ada", " ")
        with pytest.raises(ContractError, match="is not paused; in orders, nothing is"):
            await resume(log, SERVICE, "os:ada")
        await pause(log, SERVICE, *WHY)
        with pytest.raises(ContractError, match="is paused already, by os:ada: the bank migrates"):
            await pause(log, SERVICE, "os:eve", "me too")
        assert (found := await paused(log, SERVICE)) is not None
        assert (found.tasks, found.asked) == (0, log.choreography.service("orders").partitions)


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
