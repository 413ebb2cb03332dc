"""The runtime against what goes wrong: handlers that raise, garbage, restarts, zombies.

One small service on a real log, in memory and on disk; everything is looked up on the log afterwards.
"""

import asyncio
from collections.abc import Collection

import pytest

from eventlib import Publication, Runtime, RuntimeConfig
from eventlib.log.base import Membership
from eventlib.model.record import Record
from eventlib.runtime.parking.parked import parked_facts
from eventlib.runtime.records import ParkedKey
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms
from tests.apps.small_shop import (
    ChargeAsked,
    Charged,
    Noted,
    Order,
    Ordered,
    Outside,
    make_shop,
    record_of,
    retry,
    settle,
    steps,
)
from tests.integration.reopening import Opened, events, everything

PATIENCE_S = 60.0


async def test_a_request_leads_to_facts_with_causes(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5), idempotency_key="1")
        await settle(log)
        (asked,) = await everything(log, "orders.requests")
        (noted,) = await everything(log, "notes")
        charge, charged = await everything(log, "charges")
        assert [r.causation_id for r in (noted, charge, charged)] == [asked.id, asked.id, charge.id]
        assert [r.sequence for r in (noted, charge, charged)] == [1, 2, 3]
        assert {r.correlation_id for r in (noted, charge, charged)} == {asked.id}
        assert {(r.source, r.subject) for r in (noted, charge, charged)} == {("orders/order", "1")}
        assert len({r.traceparent[:35] for r in (asked, noted, charge, charged) if r.traceparent}) == 1
        assert (await events(log, "charges"))[1] == Charged(order_id="1", by=charge.id or "")


async def test_a_request_that_comes_twice_is_handled_once(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        for _ in range(3):
            await log.publish(Ordered(order_id="1", cents=5), idempotency_key="1")
        await log.publish(Ordered(order_id="1", cents=6), idempotency_key="1")
        await settle(log)
        assert await events(log, "notes") == [Noted(order_id="1", count=1)]
        dropped = [s.detail for s in await steps(log) if s.kind == "drop"]
        assert dropped == ["duplicate", "duplicate", "conflict"]


async def test_a_duplicate_is_recognised_after_a_restart(opened: Opened) -> None:
    for _ in range(2):
        async with opened(make_shop(set())) as log:
            await log.publish(Ordered(order_id="1", cents=5), idempotency_key="1")
            await settle(log)
            assert await events(log, "notes") == [Noted(order_id="1", count=1)]


async def test_a_handler_that_raises_parks_its_key_and_no_other(opened: Opened) -> None:
    broken = {"bad"}
    async with opened(make_shop(broken)) as log:
        orders = [("bad", "a"), ("good", "b"), ("bad", "c"), ("good", "d"), ("bad", "e")]
        await log.publish_many([Publication(Ordered(order_id=o, cents=1), idempotency_key=k) for o, k in orders])
        await settle(log)
        assert await events(log, "notes") == [Noted(order_id="good", count=1), Noted(order_id="good", count=2)]
        parked = await everything(log, "orders.parked")
        assert [parked_facts(r)["reason"] for r in parked] == [
            "RuntimeError: a bug in the handler",
            *["waits behind an earlier input of its key"] * 2,
        ]
        broken.clear()
        await retry(log, "order", "bad")
        await retry(log, "order", "bad")
        await settle(log)
        notes = [e for e in await events(log, "notes") if isinstance(e, Noted) and e.order_id == "bad"]
        assert [note.count for note in notes] == [1, 2, 3]
        await log.publish(Ordered(order_id="bad", cents=1), idempotency_key="f")
        await settle(log)
        assert len(await events(log, "notes")) == 6


async def test_a_retry_that_fails_again_keeps_the_rest_in_order(opened: Opened) -> None:
    broken = {"bad"}
    async with opened(make_shop(broken)) as log:
        for key in "abc":
            await log.publish(Ordered(order_id="bad", cents=ord(key)), idempotency_key=key)
        await settle(log)
        await retry(log, "order", "bad")
        await settle(log)
        state = [r for r in await everything(log, "orders.changelog") if r.key == b"parked/order/bad"]
        assert log.codec.decode(ParkedKey, state[-1].value or b"").count == 3
        broken.clear()
        await retry(log, "order", "bad")
        await settle(log)
        charges = [e.cents for e in await events(log, "charges") if isinstance(e, ChargeAsked)]
        assert charges == [ord(key) for key in "abc"]


async def test_garbage_is_parked_and_others_go_on(opened: Opened) -> None:
    topic = "orders.requests"
    async with opened(make_shop(set())) as log:
        partition = (await log.port.topics())[topic].partition_of(b"x")
        foreign = Record(topic, partition, -1, now_ms(), b"x", b"\xff\x00garbage")
        no_such_schema = foreign.replace(value=b"\x00\x7f\xff\xff\xffabc", type="Ordered", id="i1")
        torn = foreign.replace(value=b"\x00", type="Ordered", id="i2")
        not_text = foreign.replace(key=b"\xff\xfe")
        other_key = record_of(log, Ordered(order_id="y", cents=1)).replace(key=b"x", partition=partition)
        await log.port.append([foreign, no_such_schema, torn, not_text, other_key])
        await log.publish(Ordered(order_id="1", cents=5))
        await settle(log)
        assert await events(log, "notes") == [Noted(order_id="1", count=1)]
        parked = await everything(log, "orders.parked")
        assert [r.value for r in parked] == [r.value for r in (foreign, no_such_schema, torn, not_text, other_key)]


async def test_a_task_commits_its_position_after_many_inputs_that_lead_to_nothing(opened: Opened) -> None:
    """Else it would read all of them again after a restart."""
    async with opened(make_shop(set())) as log:
        await log.port.append([record_of(log, Noted(order_id="1", count=1)) for _ in range(3)])
        config = RuntimeConfig(skipped_inputs=3, flush_s=3_600)
        async with Runtime(log, ports={"gateway": Outside()}, config=config) as runtime, asyncio.timeout(PATIENCE_S):
            await runtime.idle()
            assert "notes" in {step.topic for step in await steps(log) if step.kind == "run"}


async def test_a_process_is_counted_once_its_tasks_have_joined(opened: Opened) -> None:
    async with opened(make_shop(set())) as log, Runtime(log, ports={"gateway": Outside()}) as runtime:
        assert not runtime.is_counted
        async with asyncio.timeout(PATIENCE_S):
            await runtime.idle()
        assert runtime.is_counted


async def test_a_store_that_is_gone_is_restored_from_the_changelog(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        for n in range(50):
            await log.publish(Ordered(order_id=str(n % 7), cents=n), idempotency_key=str(n))
        await settle(log, stores=MemoryStores())
        for n in range(50):
            await log.publish(Ordered(order_id=str(n % 7), cents=n), idempotency_key=str(n))
        await log.publish(Ordered(order_id="0", cents=1), idempotency_key="new")
        await settle(log, stores=MemoryStores())
        counts = [e.count for e in await events(log, "notes") if isinstance(e, Noted) and e.order_id == "0"]
        assert counts == list(range(1, 10))


async def test_a_zombie_writes_nothing_and_the_rightful_owner_goes_on(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        async with Runtime(log, ports={"gateway": Outside()}) as runtime, asyncio.timeout(120):
            await runtime.idle()
            for partition in range(8):
                claim = await log.port.seize("orders", partition)
                assert claim.epoch > 1
            await log.publish_many([Publication(Ordered(order_id=str(n), cents=n)) for n in range(20)])
            while len(await events(log, "notes")) < 20:
                await asyncio.sleep(0.05)
            await runtime.idle()
        ids = [r.id for topic in ("notes", "charges") for r in await everything(log, topic)]
        assert len(ids) == len(set(ids)) == 60


async def test_the_fold_of_the_log_is_the_state(opened: Opened) -> None:
    async with opened(make_shop(set())) as log:
        await log.publish_many([Publication(Ordered(order_id=str(n % 5), cents=n)) for n in range(40)])
        await settle(log)
        newest = {r.key: r for r in await everything(log, "orders.changelog")}
        states = {
            k: log.codec.decode(Order, r.value) for k, r in newest.items() if k and k.startswith(b"state/") and r.value
        }
        assert {k: (s.count, s.charged) for k, s in states.items()} == {
            f"state/order/{n}".encode(): (8, 8) for n in range(5)
        }


async def test_a_bug_in_keeping_copies_ends_the_process(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_self: Membership, _held: Collection[int]) -> Collection[int]:
        raise RuntimeError("a bug in the copies")

    monkeypatch.setattr(Membership, "stands_by", fails)
    async with (
        opened(make_shop(set())) as log,
        Runtime(log, ports={"gateway": Outside()}) as runtime,
        asyncio.timeout(60),
    ):
        with pytest.raises(RuntimeError, match="a bug in the copies"):
            await runtime.failed()
