"""Today's code on old days: the code that made a log differs in nothing; what is changed is named, and nothing else."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from eventlib.log.record import Record
from eventlib.model.decider import Decider
from eventlib.model.event import Event, Meta
from eventlib.model.handler import Handler
from eventlib.replay import Report, Shard, partition_buffer, replay, replaying, scanner, spilling_cache
from eventlib.replay.fast_path import FastPathComparer
from eventlib.replay.report import merged
from eventlib.values import from_ms
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchFailed, OrderDispatched
from services.order.decider import orders
from services.order.events import OrderPlaced
from services.order.state import Order
from services.payment.decider import payments
from services.payment.events import ChargeRequested, PaymentTaken, PaymentWaived
from services.simulation.faults import CarrierFaults, GatewayFaults
from services.stock.events import LineRequested, LineReserved, StockReserved, StockShipped
from services.stock.reservation import reservations
from services.stock.shelf import shelves
from services.stock.state import Shelf
from tests import compiled_core
from tests.saga.running import RunningShop, running_shop

MANY = tuple(map(str, range(24)))
CANCELLED = MANY[:4]


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[RunningShop]:
    """Return the shop after a busy day: declined, undeliverable, unanswered and cancelled orders, and a restart."""
    async with running_shop("memory://", tmp_path) as running:
        running.set_faults(GatewayFaults(decline=0.2, lost=0.2), CarrierFaults(undeliverable=0.3))
        async with running.services():
            await running.submit(*MANY[:12])
            for order_id in CANCELLED:
                await running.cancel(order_id)
        async with running.services() as runtime:
            await running.submit(*MANY[12:])
            await runtime.idle()
        yield running


async def sagas(shop: RunningShop, said: Callable[[Record, Event], bool]) -> set[str]:
    """Return the orders about which something was said."""
    return {str(event.order_id) for record, event in await shop.records() if said(record, event)}  # type: ignore[attr-defined]  # they all have one


async def caused_by(shop: RunningShop, cause: type[Event], source: str) -> set[str]:
    """Return the orders for which a decider said something in answer to a type of event."""
    causes = {record.event_id for record, event in await shop.records() if isinstance(event, cause)}
    return await sagas(shop, lambda record, _: record.source == source and record.causation_id in causes)


def plant(
    monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event], wrong: Callable[..., Any]
) -> None:
    handler = decider.handlers[event]
    handle(monkeypatch, decider, event, Handler(wrong, handler.emits, handler.wants_meta))


def handle(monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event], handler: Handler) -> None:
    monkeypatch.setitem(decider.handlers, event, handler)


def unhandle(monkeypatch: pytest.MonkeyPatch, decider: Decider[Any], event: type[Event]) -> None:
    # Taken out and put back, an item would be the last one: a copy without it leaves the order for other tests alone.
    monkeypatch.setattr(decider, "handlers", {each: h for each, h in decider.handlers.items() if each is not event})


def named(report: Report) -> dict[str, set[str]]:
    """Return the orders that differ, by handler."""
    return {handler.handler: set(handler.sagas) for handler in report.differing}


async def test_the_code_that_made_the_log_differs_in_nothing(shop: RunningShop) -> None:
    report = await replay(shop.log)
    assert report.same
    said = {type(event).__name__ for _, event in await shop.records()}
    assert said >= {"PaymentFailed", "DispatchFailed", "OrderDispatched"}, "it was a busy day"
    inputs = sum(handler.decisions for handler in report.handlers)
    assert report.decisions == inputs > 10 * len(MANY)
    assert report.events == len(await shop.records())


@pytest.mark.skipif(compiled_core.runs(), reason="in what is compiled no way is closed: see below")
async def test_the_short_way_finds_what_the_long_way_finds(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    def reserve_some(shelf: Shelf, line: LineRequested) -> Sequence[Event]:
        return shelves_reserve(shelf, line) if line.order_id in CANCELLED else []

    def taken(self: FastPathComparer, record: Record, event: Any, said: Any) -> bool:
        ways.append(short(self, record, event, said))
        return ways[-1]

    ways, short, shelves_reserve = list[bool](), FastPathComparer.decides, shelves.handlers[LineRequested].call
    monkeypatch.setattr(FastPathComparer, "decides", taken)
    right = await replay(shop.log)
    assert right.same
    assert 2 * sum(ways) > right.decisions  # most go the short way
    plant(monkeypatch, shelves, LineRequested, reserve_some)
    wrong = await replay(shop.log)
    assert not wrong.same
    monkeypatch.setattr(FastPathComparer, "decides", lambda *_: False)
    assert await replay(shop.log) == wrong
    monkeypatch.undo()
    monkeypatch.setattr(FastPathComparer, "decides", lambda *_: False)
    assert await replay(shop.log) == right


@pytest.mark.skipif(not compiled_core.runs(), reason="the short way is closed above")
def test_the_short_way_of_the_sources_finds_what_the_long_way_finds() -> None:
    assert "1 passed" in compiled_core.passed_with_sources(__file__, "-k", "the_short_way_finds")


async def test_what_says_nothing_any_more_is_named_with_its_orders(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> list[Event]:
        return []

    charged = await sagas(shop, lambda _, event: isinstance(event, ChargeRequested))
    plant(monkeypatch, payments, StockReserved, silent)
    report = await replay(shop.log)
    assert named(report) == {"payment/payment.silent": charged}
    assert report.differences == len(charged)
    assert {each.kind for each in report.first} == {"silent"}


async def test_another_content_is_told_field_by_field(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = shelves.handlers[LineRequested].call

    def reserve_less(shelf: Any, line: LineRequested) -> Sequence[Event]:
        said = reserve(shelf, line)
        return [said[0].model_copy(update={"quantity": 1})] if line.order_id in {"3", "7"} else said

    plant(monkeypatch, shelves, LineRequested, reserve_less)
    report = await replay(shop.log)
    assert named(report) == {"stock/shelf.reserve_less": {"3", "7"}}
    for difference in report.first:
        (then,), (now,) = difference.then, difference.now
        assert then.type == now.type == "LineReserved"
        assert {name for name in then.facts if then.facts[name] != now.facts[name]} == {"quantity"}


async def test_a_handler_that_raises_or_says_more_is_named(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = reservations.handlers[OrderPlaced].call

    def ask_wrongly(reservation: Any, order: OrderPlaced) -> Sequence[Event]:
        if order.order_id == "4":
            raise KeyError("a bug")
        return (
            [*ask(reservation, order), *ask(reservation, order)] if order.order_id == "5" else ask(reservation, order)
        )

    plant(monkeypatch, reservations, OrderPlaced, ask_wrongly)
    report = await replay(shop.log)
    assert named(report) == {"stock/reservation.ask_wrongly": {"4", "5"}}
    kinds = {each.saga: (each.kind, each.why, len(each.then), len(each.now)) for each in report.first}
    assert kinds == {"4": ("raises", "KeyError: 'a bug'", 1, 0), "5": ("other", "", 1, 2)}


async def test_another_order_of_the_same_events_is_a_difference(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship = reservations.handlers[OrderDispatched].call

    def ship_backwards(reservation: Any, dispatched: OrderDispatched) -> Sequence[Event]:
        return ship(reservation, dispatched)[::-1]

    dispatched = await sagas(shop, lambda _, event: isinstance(event, OrderDispatched))
    plant(monkeypatch, reservations, OrderDispatched, ship_backwards)
    assert named(await replay(shop.log)) == {"stock/reservation.ship_backwards": dispatched}


async def test_a_wrong_evolve_shows_in_what_is_said_by_it(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = payments._apply  # noqa: SLF001  no other way to plant a bug

    def forgets_the_charge(payment: Any, event: Event, meta: Meta) -> Any:
        return payment if isinstance(event, PaymentTaken) else follow(payment, event, meta)

    refunded = await caused_by(shop, DispatchFailed, "payment/payment")
    assert refunded
    monkeypatch.setattr(payments, "_apply", forgets_the_charge)
    report = await replay(shop.log)
    handler = payments.handlers[DispatchFailed].name
    assert named(report)[f"payment/payment.{handler}"] == refunded


async def test_an_input_that_nobody_handles_any_more_is_named(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = await caused_by(shop, OrderDispatched, "stock/reservation")
    assert shipped
    unhandle(monkeypatch, reservations, OrderDispatched)
    report = await replay(shop.log)
    assert named(report) == {"stock/reservation on OrderDispatched": shipped}
    assert {each.kind for each in report.first} == {"unhandled"}


async def test_a_deadline_that_would_have_passed_is_named(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    (deadline,) = orders.deadlines.values()

    def at_once(order: Order) -> datetime | None:
        return order.opened_at if deadline_was(order) is not None else None

    deadline_was = deadline.due_at
    monkeypatch.setattr(deadline, "due_at", at_once)
    report = await replay(shop.log)
    assert deadline.handler is not None
    (handler,) = report.differing
    assert handler.handler == f"order/order.{deadline.handler.name}"
    assert handler.differences == len(handler.sagas) > len(MANY) / 2
    assert {each.kind for each in report.first} == {"overdue"}


async def test_a_new_handler_for_an_old_event_is_named(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events were never noted by the task; they are found where the journal has gone past them."""

    def waive(_: object, shipped: StockShipped) -> list[Event]:
        return [PaymentWaived(order_id=shipped.order_id, reason="a gift")]

    handle(monkeypatch, payments, StockShipped, Handler(waive, (PaymentWaived,), wants_meta=False))
    report = await replay(shop.log)
    shipped = await sagas(shop, lambda _, event: isinstance(event, StockShipped))
    (handler,) = report.differing
    assert handler.handler == "payment/payment.waive"
    assert set() < set(handler.sagas) <= shipped
    assert {each.kind for each in report.first} == {"talks"}


async def test_a_topic_that_was_never_read_is_told(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    handle(monkeypatch, shipments, StockReserved, Handler(lambda *_: [], (), wants_meta=False))
    report = await replay(shop.log)
    assert report.same
    assert report.notes == ("service dispatch consumes topic stock now, and did not then: nothing is compared there",)


async def test_since_a_time_only_what_came_then_is_compared(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> list[Event]:
        return []

    plant(monkeypatch, payments, StockReserved, silent)
    times = {str(e.order_id): r.timestamp_ms for r, e in await shop.records() if isinstance(e, ChargeRequested)}
    middle = sorted(times.values())[len(times) // 2]
    report = await replay(shop.log, since=from_ms(middle))
    assert named(report) == {"payment/payment.silent": {saga for saga, at in times.items() if at >= middle}}
    assert 0 < report.decisions < (await replay(shop.log)).decisions


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_parts_make_the_whole_in_the_same_order(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    ship = reservations.handlers[OrderDispatched].call
    plant(monkeypatch, reservations, OrderDispatched, lambda state, event: ship(state, event)[::-1])
    plant(monkeypatch, payments, StockReserved, lambda *_: [])
    unhandle(monkeypatch, payments, DispatchFailed)
    handle(monkeypatch, shipments, StockReserved, Handler(lambda *_: [], (), wants_meta=False))
    records = [record for record, event in await shop.records() if isinstance(event, ChargeRequested)]
    earlier_ms = min(record.timestamp_ms for record in records) - 60_000
    await shop.log.port.append([each.replace(id=each.event_id[::-1], timestamp_ms=earlier_ms) for each in records])
    for limit in (5, 100):
        whole = await replay(shop.log, limit=limit)
        assert len(whole.differing) == 3
        assert len(whole.first) == min(limit, len(whole.sagas))
        assert whole.notes
        assert len(whole.unknown) == len(records)
        parts = [await replay(shop.log, limit=limit, part=Shard(index, count)) for index in range(count)]
        assert sum(bool(part.first) for part in parts) > 1
        assert merged(parts, limit) == whole
        for together in (1, 40):
            with monkeypatch.context() as patched:
                patched.setattr(replaying, "_TOGETHER", together)
                assert await replay(shop.log, limit=limit) == whole


async def test_memory_that_is_too_small_is_made_up_for(shop: RunningShop, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await replay(shop.log)
    monkeypatch.setattr(scanner, "_KEPT", 5)
    monkeypatch.setattr(scanner, "_READ_AHEAD", 1)
    monkeypatch.setattr(scanner, "_LEAST", 3)
    monkeypatch.setattr(spilling_cache, "IN_MEMORY", 5)
    assert await replay(shop.log) == whole


async def test_a_decoder_that_changes_a_value_in_silence_shows_in_the_sample_that_is_decoded(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = shop.log.codec.decode

    def wrongly(expected: type[Any], data: bytes) -> Any:
        event = decode(expected, data)
        return event.model_copy(update={"quantity": 1_000}) if expected is LineReserved else event

    monkeypatch.setattr(shop.log.codec, "decode", wrongly)
    monkeypatch.setattr(partition_buffer, "_SAMPLE", "")  # every id ends so: here are too few events for one in 256
    report = await replay(shop.log)
    assert "stock/shelf.reserve" in named(report)
    assert {then.facts["quantity"] for each in report.first for then in each.then} == {1_000}


async def test_what_a_decider_has_made_again_is_decoded_once_for_its_schema_or_when_it_is_consumed_before(
    shop: RunningShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, decoded = shop.log.codec.decode, list[str]()

    def counted(expected: type[Any], data: bytes) -> Any:
        decoded.append(expected.__name__)
        return decode(expected, data)

    monkeypatch.setattr(shop.log.codec, "decode", counted)
    monkeypatch.setattr(partition_buffer, "_SAMPLE", "none ends so")
    monkeypatch.setattr(replaying, "_TOGETHER", 1)  # in the order of time: who emits something before who consumes it
    assert (await replay(shop.log)).same
    found = {name: decoded.count(name) for name in ("OrderPlaced", "LineShipped")}
    made = [type(event).__name__ for _, event in await shop.records()]
    assert all(1 <= count < made.count(name) / 2 for name, count in found.items()), found


async def test_what_was_written_in_a_services_name_is_reported(shop: RunningShop) -> None:
    records = [record for record, event in await shop.records() if isinstance(event, ChargeRequested)]
    earlier_ms = min(record.timestamp_ms for record in records) - 60_000  # when payment surely did nothing
    forged = records[0].replace(id="f" * 32, timestamp_ms=earlier_ms)
    await shop.log.port.append([forged])
    report = await replay(shop.log)
    assert not report.same
    assert [each.split()[:2] for each in report.unknown] == [["ChargeRequested", "f" * 32]]
