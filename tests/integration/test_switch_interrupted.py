"""Taking over a rerun while the service runs, when it is interrupted, by two at once, and again and again."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from eventlib import EventLog
from eventlib.errors import ContractError, OwnershipLost
from eventlib.log.base import Claim
from eventlib.model.record import Record
from eventlib.operations.reprocessing import listing
from eventlib.operations.reprocessing.cutover import Switched, switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.state.memory import MemoryStores
from tests.apps.market import Code, GivenBack, market
from tests.integration.reopening import Opened, events
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
    some_short_baskets,
    stock,
    switched,
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
        await live_goes_on(log, seed=3)  # with some tasks that took over, and some that did not
    done = await switched(opened, Code())
    assert done.tasks == 8 - after
    async with opened(market()) as log:
        await live_goes_on(log)
        await check_shelves(log)
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
    await switched(opened, Code())
    async with opened(market()) as log:
        assert [type(e) for e in await events(log, "stock")].count(GivenBack) == 12
        await live_goes_on(log)
        await check_shelves(log)


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
            await live_goes_on(log, seed=1_000 + 100 * seed + number)
            found = await run_it_again(log, "store", f"check-{number}")
            assert not found.states, found
