"""A key's history, step by step: what came in, what was said, what became of the state; and what cannot be known."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Never

import pytest

from eventlib import Choreography, Event, EventLog, Publication, Runtime, Service, WiringError, open_log
from eventlib.errors import ContractError, UnknownKey
from eventlib.model.decider import Decider
from eventlib.operations.seek import move, seek_plans
from eventlib.queries.parked import parkings
from eventlib.replay import history
from eventlib.replay.comparison import Change
from eventlib.replay.key_history import key_history
from eventlib.replay.point_in_time import state_at
from eventlib.replay.steps import HistoryStep, Kind
from eventlib.runtime.keyed_state import KeyedState
from eventlib.values import from_ms, to_ms
from tests.apps.small_shop import (
    ChargeAsked,
    Charged,
    Noted,
    Order,
    Ordered,
    Outside,
    Uncharged,
    make_shop,
    settle,
)
from tests.integration.reopening import everything
from tests.operators import request_retry

LONG_AGO = from_ms(0)
BY_INPUT: list[tuple[Kind, str]] = [
    ("handled", "Ordered"),
    ("dropped", "Ordered"),
    ("handled", "Noted"),
    ("handled", "Charged"),
]


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    """A log on which order 1 was asked for twice, and order 2 once."""
    async with open_log("memory://", make_shop(set())) as log:
        for order_id in ("1", "1", "2"):
            await log.publish(Ordered(order_id=order_id, cents=5), idempotency_key=order_id)
        await settle(log, Outside(refuses={"2"}))
        yield log


async def steps_of(log: EventLog, key: str) -> list[HistoryStep[Any]]:
    return [step async for step in history(log, log.choreography.decider("order"), key)]


def seen_by(log: EventLog, choreography: Choreography) -> EventLog:
    """Return the same log as another version of the code sees it."""
    return EventLog(log.port, log.codec, choreography)


async def test_each_step_with_its_input_what_was_said_and_what_changed(log: EventLog) -> None:
    steps = await steps_of(log, "1")
    by_input = {(step.kind, step.input.type): step for step in steps if step.input is not None}
    ordered, again, noted, charged = (by_input[kind, name] for kind, name in BY_INPUT)
    answered = by_input["answered", "ChargeAsked"]
    assert steps[0] == ordered
    assert (ordered.kind, ordered.input and ordered.input.event) == ("handled", Ordered(order_id="1", cents=5))
    assert [said.event for said in ordered.emitted] == [
        Noted(order_id="1", count=1),
        ChargeAsked(order_id="1", cents=5),
    ]
    assert ordered.changes == (Change("count", 0, 1),)
    assert (again.kind, again.reason, again.changes) == ("dropped", "duplicate", ())
    assert (answered.kind, answered.input, answered.changes) == ("answered", ordered.emitted[1], ())
    assert [type(said.event) for said in answered.emitted] == [Charged]
    assert (noted.kind, noted.emitted, noted.changes) == ("handled", (), ())
    assert (charged.input, charged.changes) == (answered.emitted[0], (Change("charged", 0, 1),))
    assert charged.input is not None
    assert charged.input.meta.causation_id == answered.input.id if answered.input else False
    assert charged.after == Order(count=1, charged=1)
    assert len({step.code_version for step in (ordered, charged)}) == 1


@pytest.mark.parametrize("key", ["1", "2"])
async def test_a_history_is_read_from_a_time_on_only_if_that_makes_the_state(log: EventLog, key: str) -> None:
    await asyncio.sleep(0.005)  # the next step has another time
    await log.publish(Ordered(order_id=key, cents=7), idempotency_key=f"more of {key}")
    await settle(log, Outside(refuses={"2"}))
    decider = log.choreography.decider("order")
    whole = await key_history(log, decider, key)
    times = [to_ms(step.at) for step in whole.steps]
    changed = [to_ms(step.at) for step in whole.steps if step.changes]
    assert times[0] < changed[-1]
    for since_ms in (times[0], changed[-1]):
        assert (await key_history(log, decider, key, since_ms=since_ms)).steps == whole.steps
    with pytest.raises(UnknownKey):
        await key_history(log, decider, "3", since_ms=times[0])


async def test_an_effect_that_was_parked_and_let_run_again(log: EventLog) -> None:
    await request_retry(log, (await parkings(log))[0], "a test")
    await settle(log)
    steps = [step for step in await steps_of(log, "2") if step.kind in {"stalled", "retried", "answered"}]
    assert [(step.kind, step.reason) for step in steps] == [
        ("stalled", "TerminalError: this card was never one"),
        ("retried", ""),
        ("answered", ""),
    ]
    assert {type(step.input.event) for step in steps if step.input} == {ChargeAsked}


async def test_a_handler_that_was_changed_since_makes_no_difference(log: EventLog) -> None:
    before = await steps_of(log, "1")
    assert await steps_of(seen_by(log, make_shop({"1"})), "1") == before


async def test_another_evolve_is_found_out(log: EventLog) -> None:
    changed = make_shop(set())
    orders: Decider[Order] = changed.decider("order")
    orders._apply = lambda order, _event, _meta: Order(count=order.count + 2)  # noqa: SLF001  another evolve
    assert (await key_history(log, log.choreography.decider("order"), "1")).doubt == ""
    past = await key_history(seen_by(log, changed), orders, "1")
    assert "the current code does not reproduce the last recorded state of order" in past.doubt


async def test_an_evolve_that_raises_on_what_was_handled_is_named(log: EventLog) -> None:
    def broken(_order: Order, _event: object, _meta: object) -> Order:
        raise RuntimeError("a bug")

    changed = make_shop(set())
    orders: Decider[Order] = changed.decider("order")
    orders._apply = broken  # noqa: SLF001  another evolve
    with pytest.raises(ContractError, match=r"the current evolve of order raises on Ordered .*: RuntimeError: a bug"):
        await key_history(seen_by(log, changed), orders, "1")


async def test_a_state_after_an_event_that_was_handled_said_or_both(log: EventLog) -> None:
    steps = await steps_of(log, "1")
    ordered, answered = steps[0], next(step for step in steps if step.kind == "answered")
    assert ordered.input is not None
    charge, charged = ordered.emitted[1].id, answered.emitted[0].id
    assert (await state_at(log, "order", "1", ordered.input.id)).state == Order(count=1)
    assert (await state_at(log, "order", "1", charge)).state == Order(count=1)
    assert (await state_at(log, "order", "1", charged)).state == Order(count=1, charged=1), "said, then handled"
    assert (await state_at(log, "order", "1", charged[:8])).state == Order(count=1, charged=1)


async def test_what_is_no_moment_of_a_key_is_explained(log: EventLog) -> None:
    ordered = (await steps_of(log, "1"))[0]
    other = (await steps_of(log, "2"))[0].emitted[0]
    expected: dict[datetime | str, str] = {
        LONG_AGO: "order had no state of '1' then: its first input was at 20",
        "nonsense": r"no event on this log has the id 'nonsense', nor is that a time such as .*`eventlib history order 1`",
        other.id: f"order neither consumed nor emitted Noted {other.id} under key '1': it is an event of key '2' on notes, emitted",
        ordered.emitted[0].id[:3]: "may be .*: write more of the event's id",
    }
    for moment, sentence in expected.items():
        with pytest.raises(ContractError, match=sentence):
            await state_at(log, "order", "1", moment)
    with pytest.raises(ContractError, match="decider order knows nothing of key 'nobody'"):
        await state_at(log, "order", "nobody", LONG_AGO)


async def test_a_decider_of_another_choreography_is_refused(log: EventLog) -> None:
    other = make_shop(set()).decider("order")
    with pytest.raises(WiringError, match="decider order is not one of small: open the log with its own"):
        await key_history(log, other, "1")


async def test_nothing_was_handled_of_a_key_that_was_parked_at_once() -> None:
    async with open_log("memory://", make_shop({"bad"})) as log:
        await log.publish(Ordered(order_id="bad", cents=5))
        await settle(log)
        (parked,) = await steps_of(log, "bad")
        assert (parked.kind, parked.reason) == ("parked", "RuntimeError: a bug in the handler")
        with pytest.raises(ContractError, match="order had handled nothing of the key then: RuntimeError: a bug"):
            await state_at(log, "order", "bad", parked.at)


async def test_what_retention_has_dropped_of_what_was_said_is_named() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await log.publish(Ordered(order_id="1", cents=5, patience_s=0))
        async with Runtime(log, ports={"gateway": Outside(refuses={"1"})}), asyncio.timeout(120):
            while not await everything(log, "expiries"):
                await asyncio.sleep(0.01)
        assert "expires_at" in {step.deadline for step in await steps_of(log, "1")}
        (expired,) = await everything(log, "expiries")
        kept = log.port._partitions["expiries", expired.partition]  # type: ignore[attr-defined]  # noqa: SLF001  as retention does
        kept.records.clear()
        sentence = (
            rf"some events that order emitted are no longer on the log: expiries/{expired.partition} begins at offset 1"
        )
        with pytest.raises(ContractError, match=sentence):
            await steps_of(log, "1")


async def test_what_was_gone_past_on_purpose_is_a_step_with_who_and_why() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        service = log.choreography.service("orders")
        await log.publish(Ordered(order_id="1", cents=5), idempotency_key="a")
        await settle(log)
        await log.publish(Ordered(order_id="1", cents=6), idempotency_key="b")
        await move(log, service, await seek_plans(log, service, "latest"), "ada: it was a test")
        await log.publish(Ordered(order_id="1", cents=7), idempotency_key="c")
        await settle(log)
        ordered = [step for step in await steps_of(log, "1") if step.input and step.input.type == "Ordered"]
        assert [(step.kind, step.reason) for step in ordered] == [
            ("handled", ""),
            ("dropped", "ada: it was a test"),
            ("handled", ""),
        ]


async def test_a_fact_that_came_twice_said_the_same_twice() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        twice = Publication(Charged(order_id="1", by="somebody"), idempotency_key="1")
        await log.publish_many([Publication(Ordered(order_id="1", cents=5)), twice, twice])
        await settle(log)
        past = await key_history(log, log.choreography.decider("order"), "1")
        assert past.doubt == ""
        assert past.steps[-1].after == Order(count=1, charged=3)


async def test_a_fact_begins_a_state_another_forgets_it_and_of_a_forgotten_one_nothing_is_kept() -> None:
    notes: Decider[Order] = Decider("order", state=Order, key="order_id")

    @notes.evolve
    def evolve(order: Order, event: Event) -> Order | None:
        return replace(order, charged=1) if isinstance(event, Charged) else None

    @notes.on(Charged, Uncharged)
    def quiet(_order: Order, _event: Charged | Uncharged) -> list[Never]:
        return []

    async with open_log("memory://", Choreography("notes", [Service("orders", deciders=[notes])])) as log:
        facts = Uncharged(order_id="1"), Charged(order_id="1", by="somebody"), Uncharged(order_id="1")
        await log.publish_many([Publication(each) for each in facts])
        await settle(log)
        first, second, third = await steps_of(log, "1")
        assert first.entry_after == first.entry_before == KeyedState()
        assert (second.before, second.after) == (None, Order(charged=1))
        assert third.entry_after.state is None
        with pytest.raises(ContractError, match="order had handled nothing of the key then"):
            await state_at(log, "order", "1", first.input.id if first.input else "")
