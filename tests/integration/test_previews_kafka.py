"""Previews on a real broker: what each act would do is what it then does, and nothing was written for that."""

from secrets import token_hex

import pytest

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.errors import ContractError
from eventlib.operations.act import Desk
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.operations.pausing import what_waits
from eventlib.operations.reprocessing.cutover import preview_switch
from eventlib.operations.reprocessing.listing import reruns
from eventlib.operations.reprocessing.metadata import RerunSpec
from eventlib.operations.reset_acts import Reset, SeekOutcome
from eventlib.operations.seek import reset_plans
from eventlib.queries.pauses import PauseTarget
from tests.apps.market import Code, market
from tests.integration.rerunning import (
    WHY,
    check_laws,
    check_shelves,
    send,
    settle,
    some_short_baskets,
    stock,
    switched,
)
from tests.integration.test_parked_previews import (
    a_resumed_key_does_what_its_preview_said,
    contents,
    what_was_previewed_happens,
)
from tests.integration.test_switch_kafka import on_kafka

pytestmark = pytest.mark.extended


def empty_log(broker: Cluster) -> str:
    return f"{broker.url}/?prefix={token_hex(4)}."


@pytest.mark.parametrize("seed", range(3))
async def test_retries_edits_and_discards(broker: Cluster, seed: int) -> None:
    await what_was_previewed_happens(empty_log(broker), seed)


@pytest.mark.parametrize("broken", [set[str](), {"a"}])
async def test_a_key_that_goes_on(broker: Cluster, broken: set[str]) -> None:
    await a_resumed_key_does_what_its_preview_said(empty_log(broker), broken)


async def test_a_pause_of_a_service_and_its_end(broker: Cluster) -> None:
    async with open_log(empty_log(broker), market()) as log:
        await stock(log, A=9)
        await settle(log)
        target, desk = PauseTarget.of(log, "store"), Desk(log, "ada")
        before = await contents(log)
        told = await Pause(service="store", dry_run=True).perform(desk)
        assert await contents(log) == before
        await Pause(service="store", reason="a test", as_previewed=told.token).perform(desk)
        assert await what_waits(log, target) == told.waits
        await send(log, [("1", "A"), ("2", "A")])
        await settle(log)
        told = await Resume(service="store", dry_run=True).perform(desk)
        assert told.waits.inputs == 2
        await send(log, [("3", "A")])
        with pytest.raises(ContractError, match="nothing was done"):
            await Resume(service="store", as_previewed=told.token).perform(desk)
        told = await Resume(service="store", dry_run=True).perform(desk)
        assert (await what_waits(log, target)) == told.waits
        await Resume(service="store", as_previewed=told.token).perform(desk)
        await settle(log)
        await check_shelves(log)
        assert (await what_waits(log, target)).inputs == 0


async def test_a_reset_forwards(broker: Cluster) -> None:
    async with open_log(empty_log(broker), market()) as log:
        await stock(log, A=5)
        await send(log, [("1", "A")])
        await settle(log)
        service = log.choreography.service("store")
        await send(log, [("2", "A"), ("3", "A"), ("3", "A")])
        before = await contents(log)
        told = await Reset(service="store", to="latest", dry_run=True).perform(Desk(log, ""))
        assert isinstance(told, SeekOutcome)
        assert await contents(log) == before
        act = Reset(service="store", to="latest", reason="a test", as_previewed=told.token)
        done = await act.perform(Desk(log, "ada"))
        assert isinstance(done, SeekOutcome)
        assert done.plans == told.plans
        assert await reset_plans(log, service, "latest") == []


@pytest.mark.parametrize("runs_effects", [False, True])
async def test_a_switch_to_a_rerun(broker: Cluster, *, runs_effects: bool) -> None:
    opened = on_kafka(broker)
    async with opened(market(Code(gives_back=False))) as log:
        await some_short_baskets(log)
    async with opened(market()) as log:
        before = await contents(log)
        told, token = await preview_switch(
            log, log.choreography.service("store"), "again", RerunSpec(WHY), runs_effects=runs_effects
        )
        assert await contents(log) == before, "no topic, no claim and no note is left"
        assert await reruns(log) == []
        again = await preview_switch(
            log, log.choreography.service("store"), "again", RerunSpec(WHY), runs_effects=runs_effects
        )
        assert again == (told, token)
        assert told.said == 12
    assert await switched(opened, Code(), runs_effects=runs_effects) == told
    async with opened(market()) as log:
        await settle(log)
        await check_laws(log)
        await check_shelves(log)
