"""The laws are worth something: each bug that is planted into a decider breaks one in some interleaving."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from eventlib.decider import Decider, Handler
from eventlib.event import Event, Meta
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchCancelled, OrderDispatched
from services.order.decider import cancel, orders, place
from services.order.events import CancelSubmitted, OrderCancelled, OrderCancelRequested, OrderSubmitted
from services.order.state import Order
from services.payment.decider import payments
from services.payment.events import ChargeRequested, ChargeUncertain, PaymentTaken, PaymentWaived
from services.stock.events import LineRefused, LineReserved, StockRejected, StockReleased, StockReserved
from services.stock.reservation import call_off, join, reservations
from services.stock.state import Reservation
from tests.unit.services.test_interleavings import obey

SEEDS = 2_000

Handling = Callable[..., Sequence[Event]]
Evolving = Callable[[Any, Event, Meta], Any]


def silent(*_: object) -> list[Event]:
    return []


def charge_whatever_came(_: object, stock: StockReserved) -> list[Event]:
    return [
        ChargeRequested(
            order_id=stock.order_id, amount_cents=stock.amount_cents, currency=stock.currency, country=stock.country
        )
    ]


def keep_late_line(reservation: Reservation, line: LineReserved) -> Sequence[Event]:
    return [] if reservation.called_off else join(reservation, line)


def release_twice(reservation: Reservation, cancelled: DispatchCancelled) -> Sequence[Event]:
    return 2 * call_off(reservation, cancelled)


def grant_while_asked(_: object, wish: OrderCancelRequested) -> list[Event]:
    return [DispatchCancelled(order_id=wish.order_id, reason=wish.reason)]


def reject_at_once(_: object, line: LineRefused) -> list[Event]:
    return [StockRejected(order_id=line.order_id, reason=line.reason)]


def end_with_the_stock(order: Order, stock: StockReleased) -> list[Event]:
    return [OrderCancelled(order_id=stock.order_id, reason=order.reason, refunded_cents=0, currency="GBP")]


def place_again(order: Order, asked: OrderSubmitted, meta: Meta) -> Sequence[Event]:
    return place(replace(order, opened_at=None), asked, meta)


def forget_early_wish(order: Order, asked: OrderSubmitted, meta: Meta) -> Sequence[Event]:
    return place(replace(order, cancel_reason=""), asked, meta)


def answer_only_while_open(order: Order, wish: CancelSubmitted) -> Sequence[Event]:
    return [] if order.ended_at else cancel(order, wish)


@pytest.mark.parametrize(
    ("decider", "event", "wrong"),
    [
        (payments, PaymentTaken, silent),
        (payments, ChargeUncertain, silent),
        (payments, StockReserved, charge_whatever_came),
        (reservations, LineReserved, keep_late_line),
        (reservations, DispatchCancelled, release_twice),
        (reservations, LineRefused, reject_at_once),
        (shipments, OrderCancelRequested, grant_while_asked),
        (shipments, OrderDispatched, silent),
        (orders, StockReleased, end_with_the_stock),
        (orders, OrderSubmitted, place_again),
        (orders, OrderSubmitted, forget_early_wish),
        (orders, CancelSubmitted, answer_only_while_open),
    ],
)
def test_a_wrong_handler_breaks_a_law(
    decider: Decider[Any], event: type[Event], wrong: Handling, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = decider.handlers[event]
    monkeypatch.setitem(decider.handlers, event, Handler(wrong, handler.says, handler.wants_meta))
    assert breaks_a_law()


def without(forgotten: type[Event]) -> Callable[[Evolving], Evolving]:
    """Evolve as before, but take no notice of one event."""

    def plant(evolve: Evolving) -> Evolving:
        return lambda state, event, meta: state if isinstance(event, forgotten) else evolve(state, event, meta)

    return plant


def given_up_after(closing: type[Event]) -> Callable[[Evolving], Evolving]:
    """Evolve as before, but take one event as the order's end."""

    def plant(evolve: Evolving) -> Evolving:
        def wrong(state: Any, event: Event, meta: Meta) -> Any:
            after = evolve(state, event, meta)
            return replace(after, ended_at=meta.recorded_at) if isinstance(event, closing) else after

        return wrong

    return plant


@pytest.mark.parametrize(
    ("decider", "plant"),
    [
        (reservations, without(DispatchCancelled)),
        (shipments, without(DispatchCancelled)),
        (payments, without(DispatchCancelled)),
        (payments, given_up_after(PaymentWaived)),
        (shipments, given_up_after(OrderDispatched)),
    ],
)
def test_a_wrong_evolve_breaks_a_law(
    decider: Decider[Any], plant: Callable[[Evolving], Evolving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decider, "_apply", plant(decider._apply))  # noqa: SLF001  no other way to plant a bug
    assert breaks_a_law()


def breaks_a_law() -> bool:
    for seed in range(SEEDS):
        try:
            obey(seed)
        except AssertionError:
            return True
    return False
