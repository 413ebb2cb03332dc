"""Effects and deadlines of a service: tried again, parked, held back, and over restarts; each is answered once."""

import asyncio
from collections.abc import Sequence

import pytest

from eventlib import Publication, Runtime, RuntimeConfig, open_log
from eventlib.errors import LogUnavailable
from eventlib.log.base import Claim
from eventlib.model.record import Record
from eventlib.runtime.parking.control import ParkedRetryRequested
from eventlib.values import now_ms
from tests.apps.small_shop import (
    ChargeAsked,
    Charged,
    Ordered,
    Outside,
    Uncharged,
    make_shop,
    record_of,
    settle,
    steps,
)
from tests.handling import handle_all
from tests.integration.reopening import Opened, events, everything

PATIENCE_S = 60.0


async def test_an_effect_is_tried_again_and_answered_once(opened: Opened) -> None:
    outside = Outside(fails={"1": 2})
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        await settle(log, outside)
        assert outside.calls == ["1"] * 3
        assert [type(e) for e in await events(log, "charges")] == [ChargeAsked, Charged]


async def test_an_effect_whose_retries_are_used_up_says_what_follows(opened: Opened) -> None:
    outside = Outside(fails={"1": 99})
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        await settle(log, outside)
        assert outside.calls == ["1"] * 3
        assert [type(e) for e in await events(log, "charges")] == [ChargeAsked, Uncharged]


async def test_an_effect_that_fails_for_good_is_parked_alone(opened: Opened) -> None:
    outside = Outside(refuses={"1"})
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        await log.publish(Ordered(order_id="1", cents=6))
        await settle(log, outside)
        assert len(await events(log, "notes")) == 2
        charges = [r for r in await everything(log, "charges") if r.type == "ChargeAsked"]
        outside.refuses.clear()
        await settle(log, outside)
        assert len(outside.calls) == 2, "a parked effect waits for a person, also over restarts"
        for charge in charges:
            control = log.choreography.service("orders").control.name
            value = log.codec.encode(ParkedRetryRequested("order", charge.id or ""))
            await log.port.append([Record(control, charge.partition, -1, now_ms(), charge.key, value)])
        await settle(log, outside)
        assert sum(isinstance(e, Charged) for e in await events(log, "charges")) == 2


async def test_an_answer_that_cannot_be_said_parks_its_effect_and_nothing_else(opened: Opened) -> None:
    class Loquacious(Outside):
        async def charge(self, key: str, order_id: str) -> str:
            return "x" * 2_000_000 if order_id == "1" else await super().charge(key, order_id)

    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        await log.publish(Ordered(order_id="2", cents=5))
        await settle(log, Loquacious())
        answered = [e for e in await events(log, "charges") if isinstance(e, Charged)]
        assert [e.order_id for e in answered] == ["2"]
        assert [s.kind for s in await steps(log) if s.kind in {"stall", "park"}] == ["stall"]


async def test_an_effect_that_was_out_at_a_crash_runs_again_under_its_key(opened: Opened) -> None:
    outside = Outside(gate=asyncio.Event())
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        config = RuntimeConfig(grace_s=0)
        async with Runtime(log, ports={"gateway": outside}, config=config), asyncio.timeout(120):
            while not outside.calls:
                await asyncio.sleep(0.01)
        assert [type(e) for e in await events(log, "charges")] == [ChargeAsked]
        outside.gate = None
        await settle(log, outside)
        (asked, charged) = await everything(log, "charges")
        assert log.decode(charged) == Charged(order_id="1", by=asked.id or "")


async def test_an_answer_whose_commit_failed_is_committed_though_nothing_else_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_log("memory://", make_shop(set())) as log:
        append, refused = log.port.append, list[Record]()

        async def refusing(records: Sequence[Record], claim: Claim | None = None) -> list[int]:
            answers = [each for each in records if each.type == "Charged"]
            if answers and len(refused) < 10:  # more often than other inputs come
                refused.extend(answers)
                raise LogUnavailable("it is away for a moment")
            return await append(records, claim)

        monkeypatch.setattr(log.port, "append", refusing)
        await log.publish(Ordered(order_id="1", cents=5))
        config = RuntimeConfig(retry_pause_s=0.01, flush_s=3_600)
        await handle_all(log, ports={"gateway": Outside()}, config=config)
        assert len(refused) == 10
        assert [each.type for each in await everything(log, "charges")] == ["ChargeAsked", "Charged"]


async def test_a_stopping_runtime_waits_for_answers_that_are_out(opened: Opened) -> None:
    outside = Outside(gate=asyncio.Event())
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5))
        async with Runtime(log, ports={"gateway": outside}), asyncio.timeout(120):
            while not outside.calls:
                await asyncio.sleep(0.01)
            assert outside.gate is not None
            asyncio.get_running_loop().call_later(0.1, outside.gate.set)
        assert [type(e) for e in await events(log, "charges")] == [ChargeAsked, Charged]


async def test_pending_effects_hold_the_input_back(opened: Opened) -> None:
    outside = Outside(gate=asyncio.Event())
    config = RuntimeConfig(pending_effects=3, batch=1, grace_s=0)
    async with opened(make_shop(set())) as log:
        await log.publish_many([Publication(Ordered(order_id="1", cents=c)) for c in range(10)])
        async with Runtime(log, ports={"gateway": outside}, config=config) as runtime, asyncio.timeout(120):
            while len(outside.calls) < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert len(outside.calls) == 3
            assert outside.gate is not None
            outside.gate.set()
            await runtime.idle()
        assert len(await events(log, "charges")) == 20


async def test_what_was_pending_at_a_restart_is_started_as_room_comes(opened: Opened) -> None:
    outside = Outside(gate=asyncio.Event())
    async with opened(make_shop(set())) as log:
        await log.publish_many([Publication(Ordered(order_id="1", cents=c)) for c in range(6)])
        async with (
            Runtime(log, ports={"gateway": outside}, config=RuntimeConfig(grace_s=0)),
            asyncio.timeout(60),
        ):
            while len(outside.calls) < 6:
                await asyncio.sleep(0.01)
    async with opened(make_shop(set())) as log:
        config = RuntimeConfig(pending_effects=2)
        await handle_all(log, ports={"gateway": Outside()}, config=config)
        assert len(await events(log, "charges")) == 12


async def test_a_deadline_passes_once(opened: Opened) -> None:
    outside = Outside(fails={"1": 99})
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5, patience_s=0.1))
        async with Runtime(log, ports={"gateway": outside}) as runtime, asyncio.timeout(120):
            while not await events(log, "expiries"):
                await asyncio.sleep(0.02)
            await runtime.idle()
            await asyncio.sleep(0.1)
        await settle(log, outside)
        (expired,) = await everything(log, "expiries")
        known = {r.id for topic in ("orders.requests", "notes", "charges") for r in await everything(log, topic)}
        assert expired.causation_id in known


async def test_an_outage_does_not_expire_what_is_already_answered(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5, patience_s=1))
        outside = Outside(gate=asyncio.Event())
        config = RuntimeConfig(grace_s=0)
        async with Runtime(log, ports={"gateway": outside}, config=config), asyncio.timeout(120):
            while not outside.calls:
                await asyncio.sleep(0.005)
        (charge,) = await everything(log, "charges")
        answer = record_of(log, Charged(order_id="1", by="somebody"))
        await log.port.append([answer])
        await asyncio.sleep(1.1)
        outside.gate = None
        await settle(log, outside)
        assert await everything(log, "expiries") == []
        assert charge.type == "ChargeAsked"
