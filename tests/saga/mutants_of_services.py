"""Bugs planted into the shop's services: each a mistake that somebody could have made there."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from eventlib import Decider, Event, Meta, OutcomeUnknown
from eventlib.model.effect import Effect
from eventlib.model.event import key_of
from eventlib.model.handler import Handler
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchCancelled, DispatchFailed, DispatchRequested, OrderDispatched
from services.dispatch.ports import Booked, Carrier
from services.order.decider import cancel, orders, place
from services.order.events import CancelSubmitted, OrderCancelled, OrderCancelRequested, OrderSubmitted
from services.order.state import Cancel, Order
from services.payment.decider import payments
from services.payment.events import (
    ChargeRequested,
    ChargeUncertain,
    PaymentFailed,
    PaymentTaken,
    PaymentWaived,
    RefundRequested,
)
from services.payment.state import Payment
from services.stock.events import LineRefused, LineReserved, StockRejected, StockReleased, StockReserved
from services.stock.reservation import call_off, join, reservations
from services.stock.state import Reservation
from tests.saga.mutant import Mutant, Plant

Handling = Callable[..., Sequence[Event]]


def handles(decider: Decider[Any], event: type[Event], wrong: Handling) -> Plant:
    """Let a decider handle an event wrongly."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        handler = decider.handlers[event]
        changed = Handler(wrong, handler.emits, handler.wants_meta)
        patch.setattr(decider, "handlers", {**decider.handlers, event: changed})

    return plant


def takes_no_notice(decider: Decider[Any], event: type[Event]) -> Plant:
    """Let a decider's evolve leave an event out."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = decider._apply  # noqa: SLF001  no other way to plant a bug
        patch.setattr(
            decider, "_apply", lambda state, said, *meta: state if type(said) is event else right(state, said, *meta)
        )

    return plant


def takes_for_the_end(decider: Decider[Any], event: type[Event]) -> Plant:
    """Let a decider's evolve take an event for the order's end, after which the order is forgotten."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = decider._apply  # noqa: SLF001  no other way to plant a bug

        def wrong(state: Any, said: Event, meta: Meta) -> Any:
            after: Any = right(state, said, meta)
            return replace(after, ended_at=meta.recorded_at) if type(said) is event else after

        patch.setattr(decider, "_apply", wrong)

    return plant


def leaves_unknown_reservations_open(patch: pytest.MonkeyPatch) -> None:
    """Let a cancellation that comes when its order is forgotten begin a reservation that nothing closes."""
    right = reservations._apply  # noqa: SLF001  no other way to plant a bug

    def wrong(state: Reservation, said: Event, meta: Meta) -> Any:
        after: Any = right(state, said, meta)
        return replace(after, closed_at=state.closed_at) if isinstance(said, DispatchCancelled) else after

    patch.setattr(reservations, "_apply", wrong)


def silent(*_: object) -> list[Event]:
    return []


def charge_whatever_came(_: object, stock: StockReserved) -> list[Event]:
    cents, currency, country = stock.amount_cents, stock.currency, stock.country
    return [ChargeRequested(order_id=stock.order_id, amount_cents=cents, currency=currency, country=country)]


def refund_before_the_charge(payment: Payment, cancelled: DispatchCancelled) -> list[Event]:
    if payment.stage == "new":
        return [PaymentWaived(order_id=cancelled.order_id, reason=cancelled.reason)]
    if payment.stage not in {"taken", "charging"}:
        return []
    return [
        RefundRequested(
            order_id=cancelled.order_id,
            charge_key=payment.charge_key,
            amount_cents=payment.amount_cents,
            currency=payment.currency,
            reason=cancelled.reason,
        )
    ]


def keep_a_late_line(reservation: Reservation, line: LineReserved) -> Sequence[Event]:
    return [] if reservation.called_off else join(reservation, line)


def release_twice(reservation: Reservation, cancelled: DispatchCancelled) -> Sequence[Event]:
    return 2 * call_off(reservation, cancelled)


def grant_while_the_carrier_is_asked(_: object, wish: OrderCancelRequested) -> list[Event]:
    return [DispatchCancelled(order_id=wish.order_id, reason=wish.reason)]


def reject_at_once(_: object, line: LineRefused) -> list[Event]:
    return [StockRejected(order_id=line.order_id, reason=line.reason)]


def end_with_the_stock(order: Order, stock: StockReleased) -> list[Event]:
    return [OrderCancelled(order_id=stock.order_id, reason=order.reason, refunded_cents=0, currency="GBP")]


def place_again(order: Order, asked: OrderSubmitted, meta: Meta) -> Sequence[Event]:
    return place(replace(order, opened_at=None), asked, meta)


def forget_an_early_wish(order: Order, asked: OrderSubmitted, meta: Meta) -> Sequence[Event]:
    return place(replace(order, cancel_reason=""), asked, meta)


def answer_only_while_open(order: Order, wish: CancelSubmitted) -> Sequence[Event]:
    return [] if order.ended_at else cancel(order, wish)


def overdue_orders_end_without_asking(patch: pytest.MonkeyPatch) -> None:
    def end(_: Order, meta: Meta) -> list[Event]:
        return [OrderCancelled(order_id=meta.subject, reason="overdue", refunded_cents=0, currency="GBP")]

    patch.setattr(orders.deadlines["overdue_at"], "handler", Handler(end, (OrderCancelled,), wants_meta=True))


def asks(decider: Decider[Any], request: type[Event], wrong: Effect, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decider, "effects", {**decider.effects, request: wrong})


def silence_of_the_gateway_is_a_refusal(patch: pytest.MonkeyPatch) -> None:
    def refused(request: Event) -> Event:
        return PaymentFailed(order_id=key_of(request) or "", reason="declined")

    right = payments.effects[ChargeRequested]
    asks(payments, ChargeRequested, replace(right, otherwise=refused, uncertain=(PaymentFailed,)), patch)


def two_questions_in_one_effect(patch: pytest.MonkeyPatch) -> None:
    """Book, and recall if nobody answers: whoever takes the task over books anew, and the recall comes late."""
    right = shipments.effects[DispatchRequested]

    async def dispatch(
        request: DispatchRequested, carrier: Carrier, meta: Meta
    ) -> OrderDispatched | DispatchFailed | Event:
        try:
            return await right.ask.coroutine((request, carrier, meta))
        except OutcomeUnknown:
            recalled = await carrier.recall(meta.id)
        if isinstance(recalled, Booked):
            return OrderDispatched(order_id=request.order_id, tracking=recalled.tracking)
        return DispatchFailed(order_id=request.order_id, reason="carrier_silent")

    asks(shipments, DispatchRequested, replace(right, ask=replace(right.ask, call=dispatch)), patch)


def orders_do_not_wait_for_dispatch(patch: pytest.MonkeyPatch) -> None:
    undone: property = vars(Order)["is_undone"]
    patch.setattr(Order, "is_undone", property(lambda order: undone.__get__(replace(order, cancel=Cancel.NONE))))


SERVICES: dict[str, Mutant] = {
    "no refund for a charge that lands late": Mutant(
        handles(payments, PaymentTaken, silent), "orders_come_to_an_end", seed=3
    ),
    "an uncertain charge is left as it is": Mutant(
        handles(payments, ChargeUncertain, silent), "orders_come_to_an_end", seed=20
    ),
    "a charge whatever came before": Mutant(
        handles(payments, StockReserved, charge_whatever_came), "charges_follow_stock", seed=13
    ),
    "a refund before the charge": Mutant(
        handles(payments, DispatchCancelled, refund_before_the_charge), "money_is_conserved", seed=274
    ),
    "a line that comes late is kept": Mutant(
        handles(reservations, LineReserved, keep_a_late_line), "cancelled_orders_leave_nothing", seed=2
    ),
    "a release twice": Mutant(handles(reservations, DispatchCancelled, release_twice), "steps_happen_once", seed=2),
    "rejected before all lines are back": Mutant(
        handles(reservations, LineRefused, reject_at_once), "cancelled_orders_leave_nothing", seed=74
    ),
    "cancelled while the carrier is asked": Mutant(
        handles(shipments, OrderCancelRequested, grant_while_the_carrier_is_asked), "cancelled_parcels_stay", seed=15
    ),
    "a wish that waited is not answered": Mutant(
        handles(shipments, OrderDispatched, silent), "wishes_are_answered", seed=106
    ),
    "an order ends before its money is back": Mutant(
        handles(orders, StockReleased, end_with_the_stock), "cancelled_orders_leave_nothing", seed=2
    ),
    "an order ends before dispatch has answered": Mutant(
        orders_do_not_wait_for_dispatch, "facts_are_numbered", seed=1244
    ),
    "an order is placed again": Mutant(handles(orders, OrderSubmitted, place_again), "steps_happen_once", seed=4),
    "an early wish is forgotten": Mutant(
        handles(orders, OrderSubmitted, forget_an_early_wish), "wishes_are_answered", seed=2
    ),
    "a late wish is not answered": Mutant(
        handles(orders, CancelSubmitted, answer_only_while_open), "wishes_are_answered", seed=5
    ),
    "stock takes no notice of a cancellation": Mutant(
        takes_no_notice(reservations, DispatchCancelled), "nothing_stays_parked", seed=2
    ),
    "dispatch takes no notice of its cancellation": Mutant(
        takes_no_notice(shipments, DispatchCancelled), "cancelled_parcels_stay", seed=17
    ),
    "payment takes no notice of a cancellation": Mutant(
        takes_no_notice(payments, DispatchCancelled), "orders_come_to_an_end", seed=17
    ),
    "a waived payment is forgotten too soon": Mutant(
        takes_for_the_end(payments, PaymentWaived), "facts_are_numbered", seed=781
    ),
    "a shipment is forgotten too soon": Mutant(
        takes_for_the_end(shipments, OrderDispatched), "facts_are_numbered", seed=1290
    ),
    "a deadline that ignores what races with it": Mutant(
        overdue_orders_end_without_asking, "cancelled_orders_leave_nothing", seed=13
    ),
    "a cancellation opens what was forgotten": Mutant(
        leaves_unknown_reservations_open, "reservations_are_forgotten", seed=1244
    ),
    "silence taken for a refusal": Mutant(silence_of_the_gateway_is_a_refusal, "the_gateway_agrees", seed=20),
    "two questions in one effect": Mutant(two_questions_in_one_effect, "the_carrier_agrees", seed=256),
}
