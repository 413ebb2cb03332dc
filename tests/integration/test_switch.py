"""A rerun's states become its service's: the service goes on, nothing is handled twice, and the invariants hold."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eventlib import EventLog, open_log
from eventlib.errors import ContractError, OwnershipLost
from eventlib.log.base import Claim
from eventlib.log.record import Record
from eventlib.operations.parked_commands import request_retry
from eventlib.operations.reprocessing import dropping, listing
from eventlib.operations.reprocessing.comparison import difference
from eventlib.operations.reprocessing.cutover import Switched, switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.queries.parked import parkings, waiting_inputs
from eventlib.queries.state import state_of
from eventlib.replay import history, replay, state_at
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms
from tests.integration.rerunning import (
    WHY,
    ChargeAsked,
    Charged,
    Closed,
    Code,
    GivenBack,
    Kept,
    Opened,
    Stocked,
    Till,
    market,
    records,
    run_it_again,
    said,
    send,
    serving,
    settle,
    stock,
)
from tests.integration.test_rerun import busy_days, random_baskets, shelves_of


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens the same log again and again, also with other code: each command is another process's."""
    return lambda choreography: open_log(f"sqlite:///{tmp_path}/log.db", choreography)


async def switched(
    opened: Opened, code: Code, name: str = "again", *, runs_effects: bool = False, since_ms: int = 0
) -> Switched:
    """Run the store's past again with other code, and switch."""
    async with opened(market(code)) as log:
        service = log.choreography.service("store")
        async with rerunning(log, MemoryStores(), service, name, RerunSpec(WHY, since_ms)) as again:
            return await switch(again, WHY, runs_effects=runs_effects)


async def check_laws(log: EventLog) -> None:
    """Every id once, every cause there; a shelf knows what was said; nothing is below zero."""
    everything = [r for t in ("requests", "stock", "answers", "charges", "closed") for r in await records(log, t)]
    facts = [r.event_id for r in everything if r.type != "BasketSent"]
    assert len(facts) == len(set(facts))
    ids = {r.event_id for r in everything}
    assert not [r for r in everything if r.causation_id is not None and r.causation_id not in ids]
    by_key = dict[tuple[str, str], list[int]]()
    for record in everything:
        if record.sequence is not None:
            by_key.setdefault((record.source or "", record.subject or ""), []).append(record.sequence)
    for sequences in by_key.values():
        assert sorted(sequences) == list(range(1, len(sequences) + 1)), "what is said under a key is counted through"


async def books(log: EventLog) -> dict[str, int]:
    """Return what has to be on each shelf: stocked - kept + given back, of all that stands on the log."""
    left = dict[str, int]()
    for each in [*await said(log, "stock"), *await said(log, "answers")]:
        match each:
            case Stocked(sku=sku, units=units):
                left[sku] = left.get(sku, 0) + units
            case Kept(sku=sku):
                left[sku] = left.get(sku, 0) - 1
            case GivenBack(sku=sku):
                left[sku] = left.get(sku, 0) + 1
            case _:
                pass
    return left


async def check_shelves(log: EventLog) -> None:
    shelves = await shelves_of(log, "store")
    assert shelves == {sku: (await books(log)).get(sku, 0) for sku in shelves}
    assert min(shelves.values()) >= 0


async def live_goes_on(log: EventLog, seed: int = 77) -> None:
    """Let the service go on for a while, and everybody be answered."""
    await settle(log)
    before = len(await said(log, "closed"))
    baskets = random_baskets(20, seed)
    await send(log, baskets)
    await settle(log)
    assert len(await said(log, "closed")) == before + len(baskets)
    await check_laws(log)


async def some_short_baskets(log: EventLog) -> None:
    """Nobody asks for A and B any more when it shows that there is no C."""
    await stock(log, A=9, B=9)
    await settle(log)
    await send(log, [(f"s{n}", "ABC") for n in range(6)])
    await settle(log)


async def test_with_the_same_code_nothing_changes(opened: Opened) -> None:
    async with opened(market()) as log:
        await busy_days(log)
        before = [r for r in await records(log, "store.changelog") if r.key != b"position"]
        assert await switched(opened, Code()) == Switched(tasks=8)
        assert [r for r in await records(log, "store.changelog") if r.key != b"position"] == before
        await live_goes_on(log)
        await check_shelves(log)


async def test_what_was_forgotten_is_said_now_and_heard_once(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        assert await shelves_of(log, "store") == {"A": 3, "B": 3, "C": 0}
    done = await switched(opened, Code())
    assert (done.tasks, done.said, done.unsaid) == (8, 12, 0), (
        "that it is closed was said before, and is not said again"
    )
    async with opened(market()) as log:
        given = [r for r in await records(log, "stock") if r.type == "GivenBack"]
        assert len(given) == 12
        assert await shelves_of(log, "store") == {"A": 9, "B": 9, "C": 0}, "their shelves have heard of it already"
        await settle(log)
        assert await shelves_of(log, "store") == {"A": 9, "B": 9, "C": 0}, "and do not hear of it again"
        await live_goes_on(log)
        await check_shelves(log)


async def test_a_shelf_that_sold_what_it_had_not_is_put_right(opened: Opened) -> None:
    """What was promised cannot be unsaid; but the store knows now what it has, and that it was short."""
    async with opened(market(Code(counts=False))) as log:
        await stock(log, A=2, B=9)
        await settle(log)
        await send(log, [(f"s{n}", "AB") for n in range(6)])
        await settle(log)
        assert len([e for e in await said(log, "closed") if isinstance(e, Closed) and e.how == "charged"]) == 6
    done = await switched(opened, Code())
    async with opened(market()) as log:
        assert done.unsaid >= 4, "Kept, ChargeAsked, Charged and Closed of each that was oversold"
        shorts = [r for r in await records(log, "answers") if r.type == "Short"]
        assert len(shorts) == 4
        assert await shelves_of(log, "store") == {"A": 0, "B": 7}
        closed = [e for e in await said(log, "closed") if isinstance(e, Closed)]
        assert sorted(e.how for e in closed) == ["charged"] * 6 + ["short"] * 4
        await live_goes_on(log)
        assert min((await shelves_of(log, "store")).values()) >= 0


async def test_requests_that_only_the_rerun_makes_wait_for_a_person(opened: Opened) -> None:
    till = Till()
    async with opened(market(Code(spare=1))) as log:
        await stock(log, A=2)
        await settle(log)
        await send(log, [("1", "A"), ("2", "A")])
        await settle(log, till)
        assert len(till.charges) == 1
    done = await switched(opened, Code())
    assert (done.requested, done.asked) == (1, 0)
    async with opened(market()) as log:
        await settle(log, till)
        assert len(till.charges) == 1, "it is parked"
        (parked,) = await parkings(log)
        assert (parked.effect, parked.reason) == (
            "ChargeAsked",
            "only the rerun again requested it: retry it to run it",
        )
        await request_retry(log, parked, "ada")
        await settle(log, till)
        asked = [r.event_id for r in await records(log, "charges") if r.type == "ChargeAsked"]
        assert sorted(till.charges) == sorted(asked)
        assert len([e for e in await said(log, "charges") if isinstance(e, Charged)]) == 2
        await live_goes_on(log)


async def test_or_run_at_once_when_somebody_wants_that(opened: Opened) -> None:
    till = Till()
    async with opened(market(Code(spare=1))) as log:
        await stock(log, A=2)
        await settle(log)
        await send(log, [("1", "A"), ("2", "A")])
        await settle(log, till)
    done = await switched(opened, Code(), runs_effects=True)
    assert done.requested == 1
    async with opened(market()) as log:
        await settle(log, till)
        assert len(till.charges) == 2
        assert await parkings(log) == []
        await live_goes_on(log)


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
        assert [type(e) for e in await said(log, "charges")] == [ChargeAsked, Charged]
        await live_goes_on(log)


async def test_a_service_that_runs_goes_on_at_once(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await stock(log, E=99, F=20)  # for what others ask meanwhile
        await some_short_baskets(log)
    async with opened(market()) as log, serving(log) as runtime:
        sending = asyncio.create_task(send_slowly(log, random_baskets(60, 5, "EF")))
        done = await switched(opened, Code())
        assert (done.tasks, done.said, done.unsaid) == (8, 12, 0)
        await sending
        while len(await said(log, "closed")) < 66:
            await asyncio.sleep(0.05)
        await runtime.idle()
        await check_laws(log)
        await check_shelves(log)


async def send_slowly(log: EventLog, baskets: list[tuple[str, str]]) -> None:
    for basket in baskets:
        await send(log, [basket])
        await asyncio.sleep(0.02)


async def test_code_that_cannot_handle_what_was_handled_does_not_take_over(opened: Opened) -> None:
    """Tried again, the input would say once more what stands on the log already."""
    async with opened(market()) as log:
        await stock(log, A=3)
        await settle(log)
        await send(log, [("bad", "A"), ("good", "A")])
        await settle(log)
    with pytest.raises(ContractError, match=r"cannot handle what store has handled: basket bad \(RuntimeError: a bug"):
        await switched(opened, Code(raises_for="bad"))
    async with opened(market()) as log:
        assert await parkings(log) == []
        await live_goes_on(log)


async def test_what_neither_can_handle_stays_parked(opened: Opened) -> None:
    async with opened(market(Code(raises_for="bad"))) as log:
        await stock(log, A=3)
        await settle(log)
        await send(log, [("bad", "A"), ("good", "A")])
        await settle(log)
    assert (await switched(opened, Code(raises_for="bad", price_cents=90))).states == 0
    async with opened(market()) as log:
        (parked,) = await parkings(log)
        (waiting,) = await waiting_inputs(log, parked)
        assert (parked.key, waiting.record.type, waiting.record.topic) == ("bad", "BasketSent", "requests")
        await request_retry(log, parked, "ada")
        await settle(log)
        assert await parkings(log) == []
        await live_goes_on(log)
        await check_shelves(log)


async def test_what_was_parked_is_handled_in_the_rerun_and_so_it_is_then(opened: Opened) -> None:
    async with opened(market(Code(raises_for="bad"))) as log:
        await stock(log, A=3)
        await settle(log)
        await send(log, [("bad", "A"), ("good", "A")])
        await settle(log)
        assert len(await parkings(log)) == 1
    done = await switched(opened, Code())
    assert (done.unsaid, done.requested) == (0, 1)
    async with opened(market()) as log:
        assert [parking.effect for parking in await parkings(log)] == ["ChargeAsked"]
        await live_goes_on(log)
        await check_shelves(log)


async def test_what_the_service_has_not_handled_yet_it_handles_then(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        await send(log, random_baskets(30, 4))
    await switched(opened, Code())
    async with opened(market()) as log:
        await settle(log)
        assert len(await said(log, "closed")) == 36
        await live_goes_on(log)
        await check_shelves(log)


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


class Interrupted(Exception):
    """The end of a process, as seen from within."""


@pytest.mark.parametrize("after", range(8))
async def test_wherever_it_is_interrupted_doing_it_again_takes_the_rest(opened: Opened, after: int) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    async with opened(market()) as log:
        service, appended, left = log.choreography.service("store"), log.port.append, [after]

        async def append(records: Sequence[Record], claim: Claim | None = None) -> list[int]:
            if claim is not None and claim.service == "store":
                left[0] -= 1
                if left[0] < 0:
                    raise Interrupted
            return await appended(records, claim)

        log.port.append = append  # type: ignore[method-assign]  # the process ends there
        with pytest.raises(Interrupted):
            async with rerunning(log, MemoryStores(), service, "again", RerunSpec(WHY)) as again:
                await switch(again, WHY)
    async with opened(market()) as log:
        (known_one,) = await listing.reruns(log)
        assert known_one.switched == after
        await live_goes_on(log, seed=3)  # with some tasks that took over, and some that did not
    done = await switched(opened, Code())
    assert done.tasks == 8 - after
    async with opened(market()) as log:
        await live_goes_on(log)
        await check_shelves(log)
        assert [type(e) for e in await said(log, "stock")].count(GivenBack) >= 12
        assert [known_one.switched for known_one in await listing.reruns(log)] == [8]


async def test_two_who_switch_at_once_switch_once(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    two = await asyncio.gather(switched(opened, Code()), switched(opened, Code()), return_exceptions=True)
    done = [each for each in two if isinstance(each, Switched)]
    assert sum(each.tasks for each in done) <= 8
    for refused in (each for each in two if isinstance(each, BaseException)):
        assert isinstance(refused, OwnershipLost | ContractError), refused
    await switched(opened, Code())
    async with opened(market()) as log:
        assert [type(e) for e in await said(log, "stock")].count(GivenBack) == 12
        await live_goes_on(log)
        await check_shelves(log)


async def test_what_is_the_services_cannot_be_thrown_away_nor_switched_again(opened: Opened) -> None:
    async with opened(market()) as log:
        await some_short_baskets(log)
    await switched(opened, Code())
    assert await switched(opened, Code()) == Switched()
    async with opened(market()) as log:
        with pytest.raises(ContractError, match=r"has taken over the states of again \(8 of 8 tasks\)"):
            await dropping.drop(log, log.choreography.service("store"), "again")
        assert (await run_it_again(log, "store", "later")).is_none


async def test_a_rerun_up_to_a_time_is_not_taken_over(opened: Opened) -> None:
    async with opened(market()) as log:
        await some_short_baskets(log)
        service = log.choreography.service("store")
        async with rerunning(log, MemoryStores(), service, "again", RerunSpec(WHY, until_ms=now_ms())) as again:
            with pytest.raises(ContractError, match="too old to take over"):
                await switch(again, WHY)


async def test_up_to_a_time_what_was_decided_is_left_as_it_was(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        since_ms = now_ms()
        await asyncio.sleep(0.01)
        await stock(log, A=9)
        await settle(log)
        await send(log, [(f"t{n}", "AC") for n in range(4)])
        await settle(log)
    done = await switched(opened, Code(), since_ms=since_ms)
    assert (done.said, done.unsaid) == (4, 0)
    async with opened(market()) as log:
        back = [r.value for r in await records(log, "stock") if r.type == "GivenBack"]
        assert sorted(log.codec.decode(GivenBack, value or b"").basket for value in back) == ["t0", "t1", "t2", "t3"]
        assert await shelves_of(log, "store") == {"A": 12, "B": 3, "C": 0}
        await live_goes_on(log)
        await check_shelves(log)
        with pytest.raises(ContractError, match="took over an earlier rerun before that time"):
            await switched(opened, Code(), "later", since_ms=now_ms())


async def test_up_to_a_time_the_past_is_what_it_was_whatever_the_code_says(opened: Opened) -> None:
    """Parked keys, short baskets and charges: decided once, and not again."""
    async with opened(market(Code(counts=False, raises_for="b1-3"))) as log:
        await busy_days(log)
        assert len(await parkings(log)) == 1
    async with opened(market(Code(price_cents=90, spare=1))) as log:
        service = log.choreography.service("store")
        async with rerunning(log, MemoryStores(), service, "again", RerunSpec(WHY, now_ms())) as again:
            found = await difference(again, 10)
    assert [(each.missing, each.extra, each.other) for each in found.deciders] == [(0, 0, 0)] * 2
    assert sum(each.alike for each in found.deciders) > 100
    assert (found.requested, found.parked) == ([], [])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
async def test_one_wrong_run_after_the_other_is_done_again(opened: Opened, seed: int) -> None:
    """Each with other code, on busy days: the books are in order after each switch, and each event has one id."""
    rng = random.Random(seed)
    codes = [Code(gives_back=False), Code(counts=False), Code(spare=1), Code(price_cents=90), Code()]
    rng.shuffle(codes)
    async with opened(market(codes[0])) as log:
        await busy_days(log, seed)
    for number, code in enumerate([*codes[1:], Code()]):
        await switched(opened, code, f"again-{number}", runs_effects=bool(number % 2))
        async with opened(market(code)) as log:
            await live_goes_on(log, seed=1_000 + 100 * seed + number)
            found = await run_it_again(log, "store", f"check-{number}")
            assert not found.states, found
