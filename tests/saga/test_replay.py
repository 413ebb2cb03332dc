"""Today's code on old days: the code that made a log differs in nothing; what is changed is named, and nothing else."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from eventlib.model.event import Event
from eventlib.model.handler import Handler
from eventlib.replay import replay
from eventlib.values import from_ms
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchFailed, OrderDispatched
from services.order.decider import orders
from services.order.events import OrderPlaced
from services.order.state import Order
from services.payment.decider import payments
from services.payment.events import ChargeRequested, PaymentWaived
from services.stock.events import LineRequested, StockReserved, StockShipped
from services.stock.reservation import reservations
from services.stock.shelf import shelves
from tests.saga.planted import written
from tests.saga.planting import MANY, caused_by, handle, named, plant, sagas, unhandle
from tests.saga.running import RunningShop


async def test_the_code_that_made_the_log_differs_in_nothing(shop: RunningShop) -> None:
    report = await replay(shop.log)
    assert report.same
    said = {type(event).__name__ for _, event in await shop.records()}
    assert said >= {"PaymentFailed", "DispatchFailed", "OrderDispatched"}, "it was a busy day"
    inputs = sum(handler.decisions for handler in report.handlers)
    assert report.decisions == inputs > 10 * len(MANY)
    assert report.events == len(await shop.records())


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
    refunded = await caused_by(shop, DispatchFailed, "payment/payment")
    assert refunded
    right = "return _reached(payment, event)"
    forgets_the_charge = right, "return payment if isinstance(event, PaymentTaken) else _reached(payment, event)"
    written("services/payment/decider.py", forgets_the_charge)(monkeypatch)
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


async def test_what_was_written_in_a_services_name_is_reported(shop: RunningShop) -> None:
    records = [record for record, event in await shop.records() if isinstance(event, ChargeRequested)]
    earlier_ms = min(record.timestamp_ms for record in records) - 60_000  # when payment surely did nothing
    forged = records[0].replace(id="f" * 32, timestamp_ms=earlier_ms)
    await shop.log.port.append([forged])
    report = await replay(shop.log)
    assert not report.same
    assert [each.split()[:2] for each in report.unknown] == [["ChargeRequested", "f" * 32]]
