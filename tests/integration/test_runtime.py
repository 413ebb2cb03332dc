"""The runtime against what goes wrong: handlers that raise, garbage, lost answers, restarts, zombies.

One small service on a real log, in memory and on disk; everything is looked up on the log afterwards.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Never

import pytest

from eventlib import (
    Choreography,
    Decider,
    Event,
    EventLog,
    Meta,
    OutcomeUnknown,
    Publication,
    Retry,
    Runtime,
    RuntimeConfig,
    Service,
    TerminalError,
    open_log,
)
from eventlib.errors import LogUnavailable
from eventlib.log.base import Claim, Membership
from eventlib.log.record import Record
from eventlib.replay import replay
from eventlib.runtime.parking.control import ParkedRetryRequested
from eventlib.runtime.parking.parked import parked_facts
from eventlib.runtime.records import JournalEntry, ParkedKey
from eventlib.state.memory import MemoryStores
from eventlib.values import now_ms

PATIENCE_S = 60.0

NEVER = timedelta(days=300)


class Ordered(Event, topic="orders.requests", key="order_id", request=True):
    order_id: str
    cents: int
    patience_s: float | None = None


class Noted(Event, topic="notes", key="order_id"):
    order_id: str
    count: int


class ChargeAsked(Event, topic="charges", key="order_id"):
    order_id: str
    cents: int


class Charged(Event, topic="charges", key="order_id"):
    order_id: str
    by: str


class Uncharged(Event, topic="charges", key="order_id"):
    order_id: str


class Expired(Event, topic="expiries", key="order_id", final=True):
    order_id: str


@dataclass(frozen=True)
class Order:
    count: int = 0
    charged: int = 0
    due_at: datetime | None = None


@dataclass
class Outside:
    """A gateway whose behaviour each test sets by order."""

    fails: dict[str, int] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def charge(self, key: str, order_id: str) -> str:
        self.calls.append(order_id)
        if self.gate is not None:
            await self.gate.wait()
        if order_id in self.refuses:
            raise TerminalError("this card was never one")
        if self.fails.get(order_id, 0) > 0:
            self.fails[order_id] -= 1
            raise OutcomeUnknown("no answer")
        return key


def make_shop(broken: set[str]) -> Choreography:  # noqa: C901  one service, all in one place
    """Return a service whose handler raises for the keys in `broken`, as long as they are in there."""
    orders: Decider[Order] = Decider("order", state=Order, key="order_id")

    @orders.evolve
    def evolve(order: Order, event: Event, meta: Meta) -> Order:
        match event:
            case Ordered(patience_s=patience_s):
                due_at = None if patience_s is None else meta.recorded_at + timedelta(seconds=patience_s)
                return replace(order, count=order.count + 1, due_at=due_at)
            case Charged():
                return replace(order, charged=order.charged + 1, due_at=None)
            case _:
                return order

    @orders.on(Ordered)
    def order_it(order: Order, event: Ordered) -> list[Noted | ChargeAsked]:
        if event.order_id in broken:
            raise RuntimeError("a bug in the handler")
        return [
            Noted(order_id=event.order_id, count=order.count),
            ChargeAsked(order_id=event.order_id, cents=event.cents),
        ]

    @orders.on(Noted, Charged, Uncharged)
    def quiet(_order: Order, _event: Noted | Charged | Uncharged) -> list[Never]:
        return []

    @orders.deadline
    def expires_at(order: Order) -> datetime | None:
        return order.due_at

    @expires_at.passed
    def expire(_order: Order, meta: Meta) -> list[Expired]:
        return [Expired(order_id=meta.subject)]

    def give_up(event: ChargeAsked) -> Uncharged:
        return Uncharged(order_id=event.order_id)

    @orders.effect(ChargeAsked, retry=Retry(attempts=3, first_pause_s=0.01, jitter_s=0), otherwise=give_up)
    async def charge(event: ChargeAsked, gateway: Outside, meta: Meta) -> Charged:
        return Charged(order_id=event.order_id, by=await gateway.charge(meta.id, event.order_id))

    return Choreography("small", [Service("orders", deciders=[orders], effects="all")])


Opened = Callable[[Choreography], AbstractAsyncContextManager[EventLog]]


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the same log again and again, as restarts do."""
    if request.param == "sqlite":
        yield lambda choreography: open_log(f"sqlite:///{tmp_path}/log.db", choreography)
        return
    async with open_log("memory://", make_shop(set())) as kept:
        yield lambda choreography: reopened(kept, choreography)


@asynccontextmanager
async def reopened(kept: EventLog, choreography: Choreography) -> AsyncIterator[EventLog]:
    log = EventLog(kept.port, kept.codec, choreography)
    await log.prepare()
    yield log


async def everything(log: EventLog, topic: str) -> list[Record]:
    partitions = (await log.port.topics())[topic].partitions
    return [r for p in range(partitions) for r in await log.port.read(topic, p, 0, 100_000)]


async def events(log: EventLog, topic: str) -> list[Event]:
    return [event for _, event in await log.decode_many(await everything(log, topic)) if isinstance(event, Event)]


def record_of(log: EventLog, event: Event) -> Record:
    return log.records_of(Publication(event), now_ms())[0]


async def settle(log: EventLog, outside: Outside | None = None, stores: MemoryStores | None = None) -> None:
    """Run the services until all is handled; then a replay of everything so far says what they said."""
    async with Runtime(log, ports={"gateway": outside or Outside()}, stores=stores) as runtime, asyncio.timeout(120):
        await runtime.idle()
    report = await replay(log)
    assert report.same, report.first or report.unknown


async def retry(log: EventLog, decider: str, key: str) -> None:
    control = log.choreography.service("orders").control
    value = log.codec.encode(ParkedRetryRequested(decider, key, by="test"))
    partition = control.partition_of(key.encode())
    await log.port.append(
        [Record(control.name, partition, -1, now_ms(), key.encode(), value, type="ParkedRetryRequested")]
    )


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


async def steps(log: EventLog) -> list:  # type: ignore[type-arg]  # steps of the journal
    journal = [log.codec.decode(JournalEntry, r.value or b"") for r in await everything(log, "orders.journal")]
    return [step for entry in journal for step in entry.steps]


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
        async with Runtime(log, ports={"gateway": Outside()}, config=config) as runtime, asyncio.timeout(PATIENCE_S):
            await runtime.idle()
        assert len(refused) == 10
        assert [each.type for each in await everything(log, "charges")] == ["ChargeAsked", "Charged"]


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
        async with Runtime(log, ports={"gateway": Outside()}, config=config) as runtime, asyncio.timeout(20):
            await runtime.idle()
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
