"""A wrong run on Kafka is found, done again and taken over while its service runs; what was before can still be told."""

import asyncio
from datetime import UTC, datetime
from secrets import token_hex

import pytest

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.operations.reprocessing import listing
from eventlib.operations.seek import move, seek_plans
from eventlib.replay import history, replay, state_at
from tests.apps.market import Code, market
from tests.integration.reopening import Opened, events
from tests.integration.rerunning import (
    WHY,
    check_laws,
    check_shelves,
    run_it_again,
    send,
    serving,
    settle,
    shelves_of,
    some_short_baskets,
    stock,
    switched,
)


def on_kafka(broker: Cluster) -> Opened:
    url = f"{broker.url}/?prefix={token_hex(4)}."
    return lambda choreography: open_log(url, choreography)


@pytest.mark.extended
async def test_a_wrong_run_is_found_done_again_and_taken_over_while_its_service_runs(broker: Cluster) -> None:
    opened = on_kafka(broker)
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
        before = datetime.now(UTC)
        await asyncio.sleep(0.01)
    async with opened(market()) as log, serving(log) as runtime:
        (differing,) = (await replay(log)).differing
        assert (differing.handler, differing.differences) == ("store/basket.join", 6)
        found = await run_it_again(log, "store")
        assert [(each.decider, each.missing, each.extra, each.other) for each in found.deciders] == [
            ("basket", 0, 12, 0),
            ("shelf", 0, 0, 0),
        ]
        (listed,) = await listing.reruns(log)
        assert (listed.handled, listed.switched) == (listed.of, 0)
        done = await switched(opened, Code())
        assert (done.tasks, done.said, done.unsaid) == (8, 12, 0)
        await stock(log, D=1)
        await send(log, [("live", "D")])
        async with asyncio.timeout(120):
            while len(await events(log, "closed")) < 7:
                await asyncio.sleep(0.05)
        await runtime.idle()
        await check_laws(log)
        await check_shelves(log)
        assert await shelves_of(log, "store") == {"A": 9, "B": 9, "C": 0, "D": 0}
        steps = [step async for step in history(log, log.choreography.decider("basket"), "s1")]
        taken_over = next(step for step in steps if step.kind == "switched")
        assert (taken_over.reason, [each.type for each in taken_over.emitted]) == (WHY, ["GivenBack", "GivenBack"])
        assert (await state_at(log, "shelf", "A", before)).state.left == 3


@pytest.mark.extended
async def test_what_is_thrown_away_or_gone_past_leaves_nothing(broker: Cluster) -> None:
    opened = on_kafka(broker)
    async with opened(market()) as log:
        await stock(log, A=5)
        await send(log, [("1", "A"), ("2", "A")])
        await settle(log)
        service = log.choreography.service("store")
        assert await seek_plans(log, service, "latest") == [], "nothing is left to be handled"
        assert (await run_it_again(log, "store")).is_none
        await listing.drop(log, service, "again")
        assert await listing.reruns(log) == []
        assert not [topic for topic in await log.port.topics() if topic.startswith("again")]
        await send(log, [("3", "A")])
        done = await move(log, service, await seek_plans(log, service, "latest"), WHY)
        assert [dict(each.keys) for each in done] == [{"3": 1}]
        await send(log, [("4", "A")])
        await settle(log)
        assert len(await events(log, "closed")) == 3
        assert (await run_it_again(log, "store")).is_none, "a rerun goes past it, too"
