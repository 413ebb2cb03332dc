"""A rerun that begins or ends at a time: what was decided before stays as it was, and one that is too old is not taken over."""

import asyncio

import pytest

from eventlib.errors import ContractError
from eventlib.operations.reprocessing.comparison import difference
from eventlib.operations.reprocessing.cutover import switch
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reprocessing.running import rerunning
from eventlib.queries.parked import parkings
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms
from tests.apps.market import Code, GivenBack, market
from tests.integration.reopening import Opened, everything
from tests.integration.rerunning import (
    WHY,
    busy_days,
    check_shelves,
    live_goes_on,
    send,
    settle,
    shelves_of,
    some_short_baskets,
    stock,
    switched,
)

pytestmark = pytest.mark.parametrize("opened", ["sqlite"], indirect=True)  # each command is another process's


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
