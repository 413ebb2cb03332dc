"""A rerun's states become its service's: the service goes on, nothing is handled twice, and the invariants hold."""

import asyncio
from datetime import UTC, datetime

import pytest

from eventlib import EventLog
from eventlib.errors import ContractError
from eventlib.operations.reprocessing.cutover import Switched
from eventlib.queries.parked import parkings, waiting_inputs
from eventlib.queries.state import state_of
from eventlib.replay import history, replay, state_at
from tests.apps.market import ChargeAsked, Charged, Closed, Code, Till, market
from tests.integration.reopening import Opened, events, everything
from tests.integration.rerunning import (
    WHY,
    busy_days,
    live_goes_on,
    random_baskets,
    send,
    serving,
    settle,
    shelves_of,
    some_short_baskets,
    stock,
    switched,
    taken_over,
)
from tests.operators import request_retry

pytestmark = pytest.mark.parametrize("opened", ["sqlite"], indirect=True)  # each command is another process's


async def test_with_the_same_code_nothing_changes(opened: Opened) -> None:
    async with opened(market()) as log:
        await busy_days(log)
        before = [r for r in await everything(log, "store.changelog") if r.key != b"position"]
        assert await switched(opened, Code()) == Switched(tasks=8)
        assert [r for r in await everything(log, "store.changelog") if r.key != b"position"] == before
        await live_goes_on(log)


async def test_what_was_forgotten_is_said_now_and_heard_once(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        assert await shelves_of(log, "store") == {"A": 3, "B": 3, "C": 0}
    async with taken_over(opened) as (log, done):
        assert (done.tasks, done.said, done.unsaid) == (8, 12, 0), "that it is closed is not said again"
        given = [r for r in await everything(log, "stock") if r.type == "GivenBack"]
        assert len(given) == 12
        assert await shelves_of(log, "store") == {"A": 9, "B": 9, "C": 0}, "their shelves have heard of it already"
        await settle(log)
        assert await shelves_of(log, "store") == {"A": 9, "B": 9, "C": 0}, "and do not hear of it again"


async def test_a_shelf_that_sold_what_it_had_not_is_put_right(opened: Opened) -> None:
    """What was promised cannot be unsaid; but the store knows now what it has, and that it was short."""
    async with opened(market(Code(counts=False))) as log:
        await stock(log, A=2, B=9)
        await settle(log)
        await send(log, [(f"s{n}", "AB") for n in range(6)])
        await settle(log)
        assert len([e for e in await events(log, "closed") if isinstance(e, Closed) and e.how == "charged"]) == 6
    done = await switched(opened, Code())
    async with opened(market()) as log:
        assert done.unsaid >= 4, "Kept, ChargeAsked, Charged and Closed of each that was oversold"
        shorts = [r for r in await everything(log, "answers") if r.type == "Short"]
        assert len(shorts) == 4
        assert await shelves_of(log, "store") == {"A": 0, "B": 7}
        closed = [e for e in await events(log, "closed") if isinstance(e, Closed)]
        assert sorted(e.how for e in closed) == ["charged"] * 6 + ["short"] * 4
        await live_goes_on(log, shelves=False)
        assert min((await shelves_of(log, "store")).values()) >= 0


@pytest.mark.parametrize("at_once", [False, True])
async def test_requests_that_only_the_rerun_makes_wait_for_a_person_or_run_at_once(
    opened: Opened, *, at_once: bool
) -> None:
    till = Till()
    async with opened(market(Code(spare=1))) as log:
        await stock(log, A=2)
        await settle(log)
        await send(log, [("1", "A"), ("2", "A")])
        await settle(log, till)
        assert len(till.charges) == 1
    async with taken_over(opened, runs_effects=at_once) as (log, done):
        assert (done.requested, done.asked) == (1, 0)
        await settle(log, till)
        if not at_once:
            assert len(till.charges) == 1, "it is parked"
            (parked,) = await parkings(log)
            why = "only the rerun again requested it: retry it to run it"
            assert (parked.effect, parked.reason) == ("ChargeAsked", why)
            await request_retry(log, parked, "ada")
            await settle(log, till)
        asked = [r.event_id for r in await everything(log, "charges") if r.type == "ChargeAsked"]
        assert sorted(till.charges) == sorted(asked)
        assert len([e for e in await events(log, "charges") if isinstance(e, Charged)]) == 2
        assert await parkings(log) == []


async def test_a_request_that_only_the_service_has_made_is_still_answered(opened: Opened) -> None:
    """The outside was asked, and may have acted: what it says is heard."""
    till = Till(is_closed=True)
    async with opened(market()) as log:
        await stock(log, A=1)
        await settle(log)
        await send(log, [("1", "A")])
        async with serving(log, till):
            while not till.calls:
                await asyncio.sleep(0.01)
    done = await switched(opened, Code(spare=1))
    assert (done.requested, done.asked) == (0, 1)
    async with opened(market(Code(spare=1))) as log:
        till.is_closed = False
        await settle(log, till)
        assert [type(e) for e in await events(log, "charges")] == [ChargeAsked, Charged]
        await live_goes_on(log, shelves=False)  # the unit that is spared now was kept by the service


async def bad_and_good(log: EventLog) -> None:
    """Have units for two baskets, one of which some code cannot handle."""
    await stock(log, A=3)
    await settle(log)
    await send(log, [("bad", "A"), ("good", "A")])
    await settle(log)


async def test_code_that_cannot_handle_what_was_handled_does_not_take_over(opened: Opened) -> None:
    """Tried again, the input would say once more what stands on the log already."""
    async with opened(market()) as log:
        await bad_and_good(log)
    with pytest.raises(ContractError, match=r"cannot handle what store has handled: basket bad \(RuntimeError: a bug"):
        await switched(opened, Code(raises_for="bad"))
    async with opened(market()) as log:
        assert await parkings(log) == []
        await live_goes_on(log)


async def test_what_neither_can_handle_stays_parked(opened: Opened) -> None:
    async with opened(market(Code(raises_for="bad"))) as log:
        await bad_and_good(log)
    assert (await switched(opened, Code(raises_for="bad", price_cents=90))).states == 0
    async with opened(market()) as log:
        (parked,) = await parkings(log)
        (waiting,) = await waiting_inputs(log, parked)
        assert (parked.key, waiting.record.type, waiting.record.topic) == ("bad", "BasketSent", "requests")
        await request_retry(log, parked, "ada")
        await settle(log)
        assert await parkings(log) == []
        await live_goes_on(log)


async def test_what_was_parked_is_handled_in_the_rerun_and_so_it_is_then(opened: Opened) -> None:
    async with opened(market(Code(raises_for="bad"))) as log:
        await bad_and_good(log)
        assert len(await parkings(log)) == 1
    async with taken_over(opened) as (log, done):
        assert (done.unsaid, done.requested) == (0, 1)
        assert [parking.effect for parking in await parkings(log)] == ["ChargeAsked"]


async def test_what_the_service_has_not_handled_yet_it_handles_then(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        await send(log, random_baskets(30, 4))
    async with taken_over(opened) as (log, _):
        await settle(log)
        assert len(await events(log, "closed")) == 36


async def test_what_was_before_and_after_can_be_told_and_replayed(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        before = datetime.now(UTC)
        await asyncio.sleep(0.01)
    await switched(opened, Code())
    async with opened(market()) as log:
        await live_goes_on(log)
        basket, shelf = (log.choreography.decider(name) for name in ("basket", "shelf"))
        steps = [step async for step in history(log, basket, "s1")]
        taken_over = next(step for step in steps if step.kind == "switched")
        assert (taken_over.reason, [each.type for each in taken_over.emitted]) == (WHY, ["GivenBack", "GivenBack"])
        assert (await state_at(log, "shelf", "A", before)).state.left == 3
        for decider, keys in ((basket, ["s1", "s5", *(name for name, _ in random_baskets(20, 77))]), (shelf, "ABC")):
            for key in keys:
                now = await state_of(log, decider.name, key)
                past = [step async for step in history(log, decider, key)]
                assert (past[-1].after, past[-1].entry_after.sequence) == (now.state, now.sequence), key
        report = await replay(log)
        assert [(each.handler, each.differences) for each in report.differing] == [("store/basket.join", 6)]
        assert not report.unknown
