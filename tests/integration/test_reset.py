"""Positions moved and inputs skipped on purpose: services that run and services that do not, two people at once."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eventlib import EventLog, Publication, Runtime, open_log
from eventlib.errors import ContractError
from eventlib.operations.seek import move, seek_plans
from eventlib.operations.skip import SkipOutcome, SkippedNow, preview_skip, skip
from eventlib.replay.journal_steps import Act, Consumed, Moved, Released
from eventlib.runtime.transaction import SkipInput
from tests.apps.small_shop import Noted, Ordered, Outside, make_shop, settle
from tests.integration.reopening import Opened, done_by, events, everything
from tests.integration.test_parked_previews import contents

WHY = "ada: it was a test"


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens the same log again and again: each act is another process's, that ends with it."""
    return lambda choreography: open_log(f"sqlite:///{tmp_path}/log.db", choreography)


async def order(log: EventLog, order_id: str, key: str | None = None) -> None:
    await log.publish(Ordered(order_id=order_id, cents=5), idempotency_key=key)


async def orders(log: EventLog, *order_ids: str) -> None:
    await log.publish_many([Publication(Ordered(order_id=each, cents=5), each) for each in order_ids])


async def acts(log: EventLog) -> list[Act]:
    return [act for p in range(8) for done in await done_by(log, p) for act in done.acts]


async def noted(log: EventLog) -> list[str]:
    return sorted(event.order_id for event in await events(log, "notes") if isinstance(event, Noted))


async def id_of(log: EventLog, order_id: str) -> str:
    return next(r.event_id for r in await everything(log, "orders.requests") if r.subject == order_id)


async def to_latest(opened: Opened) -> list[Any]:
    async with opened(make_shop(set())) as log:
        service = log.choreography.service("orders")
        return await move(log, service, await seek_plans(log, service, "latest"), WHY)


async def skipped(opened: Opened, event_id: str, broken: set[str] | None = None) -> SkippedNow:
    async with opened(make_shop(broken or set())) as log:
        return await skip(log, log.choreography.service("orders"), event_id, WHY)


async def test_what_is_gone_past_is_never_handled_and_that_is_recorded(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await orders(log, "1", "2")
        await settle(log)
        await orders(log, "3", "4", "3b")
        done = await to_latest(opened)
        assert sorted(key for each in done for key in each.keys) == ["3", "3b", "4"]
        await orders(log, "5")
        await settle(log)
        assert await noted(log) == ["1", "2", "5"]
        found = await acts(log)
        moved = [act for act in found if isinstance(act, Moved)]
        assert {act.why for act in moved} == {WHY}
        assert sum(act.to - act.first for act in moved if act.topic == "orders.requests") == 3
        consumed = [record for act in found if isinstance(act, Consumed) for record, _ in act.each()]
        taken = [record.subject for record in consumed if record.type == "Ordered"]
        assert sorted(map(str, taken)) == ["1", "2", "5"]


async def test_a_running_service_goes_on_after_it(opened: Opened) -> None:
    gate = asyncio.Event()
    outside = Outside(gate=gate)
    async with opened(make_shop(set())) as log:
        async with Runtime(log, ports={"gateway": outside}) as runtime, asyncio.timeout(120):
            await orders(log, *map(str, range(20)))
            while len(outside.calls) < 20:  # answers are awaited while the tasks are taken away, and given back
                await asyncio.sleep(0.01)
            done = await to_latest(opened)
            assert {each.topic for each in done} <= {"notes", "charges"}  # seen already, and without any consequence
            event_id = await id_of(log, "7")
            with pytest.raises(ContractError, match=r"has handled Ordered .* already .*eventlib rerun orders"):
                await skipped(opened, event_id)
            gate.set()
            await orders(log, "20")
            while len(await events(log, "charges")) < 42:
                await asyncio.sleep(0.05)
            await runtime.idle()
        assert await noted(log) == sorted(map(str, range(21)))


async def test_at_a_time_is_at_the_first_input_that_is_not_older(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await orders(log, "0")
        await settle(log)
        await order(log, "a", "1")
        await asyncio.sleep(0.01)
        at = datetime.now(UTC)
        await order(log, "a", "2")
        service = log.choreography.service("orders")
        async with opened(log.choreography) as other:
            done = await move(other, service, await seek_plans(other, service, at, ["orders.requests"]), WHY)
        assert [each.keys for each in done if each.keys] == [{"a": 1}]
        assert {each.topic for each in done} == {"orders.requests"}
        await settle(log)
        assert await noted(log) == ["0", "a"]


async def test_two_at_once_move_once(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await orders(log, "1")
        await settle(log)
        await orders(log, *map(str, range(2, 12)))
        done = await asyncio.gather(to_latest(opened), to_latest(opened), return_exceptions=True)
        assert not [each for each in done if isinstance(each, BaseException)]
        moved = [act for act in await acts(log) if isinstance(act, Moved) and act.topic == "orders.requests"]
        assert sum(act.to - act.first for act in moved) == 10
        assert len({(act.first, act.to) for act in moved}) <= len(moved)
        await settle(log)
        assert await noted(log) == ["1"]


async def test_a_topic_that_is_not_read_is_named(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        service = log.choreography.service("orders")
        with pytest.raises(ContractError, match=r"does not read 'nowhere': it reads charges, notes, orders.requests"):
            await seek_plans(log, service, "latest", ["nowhere"])
        with pytest.raises(ContractError, match=r"orders has never read"):
            await seek_plans(log, service, "latest")


async def test_an_input_to_come_is_skipped_however_often_it_comes(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await orders(log, "0")
        await settle(log)
        await orders(log, "bad", "good", "bad")
        event_id = await id_of(log, "bad")
        done = await skipped(opened, event_id)
        assert (done.key, done.type, done.was_parked) == ("bad", "Ordered", False)
        await settle(log)
        await orders(log, "bad")
        await settle(log)
        assert await noted(log) == ["0", "good"]
        found = await acts(log)
        assert [act for act in found if isinstance(act, SkipInput)] == [SkipInput(event_id, WHY)]
        left_out = [act.refused["order"] for act in found if isinstance(act, Consumed) and act.refused]
        assert left_out == [("drop", WHY)] * 3


async def test_a_parked_input_is_skipped_and_those_behind_it_go_on(opened: Opened) -> None:
    broken = {"bad"}
    async with opened(make_shop(broken)) as log:
        for key in "abc":
            await order(log, "bad", key)
        await settle(log)
        first = (await everything(log, "orders.requests"))[0].event_id
        done = await skipped(opened, first, broken)
        assert (done.was_parked, done.released, done.parked_again) == (True, 0, True)
        second = (await everything(log, "orders.requests"))[1].event_id
        broken.clear()
        done = await skipped(opened, second)
        assert (done.was_parked, done.released, done.parked_again) == (True, 1, False)
        await settle(log)
        assert await noted(log) == ["bad"]
        with pytest.raises(ContractError, match="already"):
            await skipped(opened, first)
        released = [act.refused for act in await acts(log) if isinstance(act, Released)]
        assert [None if each is None else each.kind for each in released] == ["drop", "park", "drop", None]


async def test_an_event_that_is_not_there_cannot_be_skipped(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await orders(log, "1")
        await settle(log)
        with pytest.raises(ContractError, match=r"orders reads no event with the id 'nowhere'"):
            await skipped(opened, "nowhere")
        (asked,) = [r for r in await everything(log, "charges") if r.type == "ChargeAsked"]
        with pytest.raises(ContractError, match=r"already|does not handle"):
            await skipped(opened, asked.event_id)


async def test_a_log_in_memory_gives_the_task_back() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        service = log.choreography.service("orders")
        async with Runtime(log, ports={"gateway": Outside()}) as runtime, asyncio.timeout(120):
            await orders(log, "1")
            await runtime.idle()
            await order(log, "2", "x")
            await move(log, service, await seek_plans(log, service, "latest", ["notes"]), WHY)
            await orders(log, "3")
            while len(await noted(log)) < 3:
                await asyncio.sleep(0.05)
        assert await noted(log) == ["1", "2", "3"]


async def previewed_skip(opened: Opened, event_id: str, broken: set[str] | None = None) -> SkipOutcome:
    async with opened(make_shop(broken or set())) as log:
        before = await contents(log)
        found = await preview_skip(log, log.choreography.service("orders"), event_id)
        assert await contents(log) == before, "a preview writes nothing"
        return found


async def test_a_skip_is_what_its_preview_was(opened: Opened) -> None:
    async with opened(make_shop({"a", "b"})) as log:
        for number in range(3):
            await order(log, "a", f"a{number}")
        await order(log, "b", "b0")
        await settle(log)
        await order(log, "c", "c0")
    for order_id, broken, released, parked_again in (
        ("a", set[str](), 2, False),
        ("b", {"b"}, 0, False),
        ("c", set[str](), 0, False),
    ):
        async with opened(make_shop(broken)) as log:
            event_id, noted_before = await id_of(log, order_id), await everything(log, "notes")
        preview = await previewed_skip(opened, event_id, broken)
        done = await skipped(opened, event_id, broken)
        assert (preview.skipped, done.released, done.parked_again) == (done, released, parked_again)
        async with opened(make_shop(broken)) as log:
            new = [each for each in await everything(log, "notes") if each not in noted_before]
            emitted = [each for each in preview.emitted if isinstance(each, Noted)]
            assert emitted == [each for _, each in await log.decode_many(new)]
            with pytest.raises(ContractError) as refused:
                await skip(log, log.choreography.service("orders"), event_id, WHY)
        with pytest.raises(ContractError) as also:
            await previewed_skip(opened, event_id, broken)
        assert str(also.value) == str(refused.value), "what is refused is refused by its preview, in the same words"
