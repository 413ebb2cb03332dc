"""Taking over a rerun: while the service runs, interrupted, by two at once, again and again, and up to a time."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from eventlib import EventLog
from eventlib.errors import ContractError, OwnershipLost
from eventlib.log.base import Claim
from eventlib.model.record import Record
from eventlib.operations.reprocessing import listing
from eventlib.operations.reprocessing.comparison import difference
from eventlib.operations.reprocessing.cutover import Switched, switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.queries.parked import parkings
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms
from tests.apps.market import Code, GivenBack, market
from tests.integration.reopening import Opened, events, everything
from tests.integration.rerunning import (
    WHY,
    busy_days,
    check_laws,
    check_shelves,
    live_goes_on,
    random_baskets,
    run_it_again,
    send,
    serving,
    settle,
    shelves_of,
    some_short_baskets,
    stock,
    switched,
    taken_over,
)

pytestmark = pytest.mark.parametrize("opened", ["sqlite"], indirect=True)  # each command is another process's


async def test_a_service_that_runs_goes_on_at_once(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await stock(log, E=99, F=20)  # for what others ask meanwhile
        await some_short_baskets(log)
    async with opened(market()) as log, serving(log) as runtime:
        sending = asyncio.create_task(send_slowly(log, random_baskets(60, 5, "EF")))
        done = await switched(opened, Code())
        assert (done.tasks, done.said, done.unsaid) == (8, 12, 0)
        await sending
        while len(await events(log, "closed")) < 66:
            await asyncio.sleep(0.05)
        await runtime.idle()
        await check_laws(log)
        await check_shelves(log)


async def send_slowly(log: EventLog, baskets: list[tuple[str, str]]) -> None:
    for basket in baskets:
        await send(log, [basket])
        await asyncio.sleep(0.02)


class Interrupted(Exception):
    """The end of a process, as seen from within."""


@pytest.mark.parametrize("after", [0, 1, *(pytest.param(each, marks=pytest.mark.extended) for each in range(2, 7)), 7])
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
        await live_goes_on(log, seed=3, shelves=False)  # with some tasks that took over, and some that did not
    async with taken_over(opened) as (log, done):
        assert done.tasks == 8 - after
        assert [type(e) for e in await events(log, "stock")].count(GivenBack) >= 12
        assert [known_one.switched for known_one in await listing.reruns(log)] == [8]


async def test_two_who_switch_at_once_switch_once(opened: Opened) -> None:
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    two = await asyncio.gather(switched(opened, Code()), switched(opened, Code()), return_exceptions=True)
    done = [each for each in two if isinstance(each, Switched)]
    assert sum(each.tasks for each in done) <= 8
    for refused in (each for each in two if isinstance(each, BaseException)):
        assert isinstance(refused, OwnershipLost | ContractError), refused
    async with taken_over(opened) as (log, _):
        assert [type(e) for e in await events(log, "stock")].count(GivenBack) == 12


async def test_what_is_the_services_cannot_be_thrown_away_nor_switched_again(opened: Opened) -> None:
    async with opened(market()) as log:
        await some_short_baskets(log)
    await switched(opened, Code())
    assert await switched(opened, Code()) == Switched()
    async with opened(market()) as log:
        with pytest.raises(ContractError, match=r"has taken over the states of again \(8 of 8 tasks\)"):
            await listing.drop(log, log.choreography.service("store"), "again")
        assert (await run_it_again(log, "store", "later")).is_none


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.extended), pytest.param(1, marks=pytest.mark.slow)])
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
            await live_goes_on(log, seed=1_000 + 100 * seed + number, shelves=False)
            found = await run_it_again(log, "store", f"check-{number}")
            assert not found.states, found


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
        back = [r.value for r in await everything(log, "stock") if r.type == "GivenBack"]
        assert sorted(log.codec.decode(GivenBack, value or b"").basket for value in back) == ["t0", "t1", "t2", "t3"]
        assert await shelves_of(log, "store") == {"A": 12, "B": 3, "C": 0}
        await live_goes_on(log)
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
