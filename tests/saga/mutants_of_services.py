"""Bugs planted into the shop's services: each a mistake that somebody could have made there."""

from dataclasses import replace

import pytest

from eventlib import Event, Meta, OutcomeUnknown
from eventlib.model.effect import Effect
from eventlib.model.event import key_of
from eventlib.model.handler import Handler
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchFailed, DispatchRequested, OrderDispatched
from services.dispatch.ports import Booked, Carrier
from services.order.decider import orders
from services.order.events import OrderCancelled
from services.order.state import Order
from services.payment.decider import payments
from services.payment.events import ChargeRequested, PaymentFailed
from tests.saga.mutant import Mutant
from tests.saga.planted import changed, written
from tests.saga.wrong_decisions import DISPATCH, ORDER, PAYMENT, STOCK, WRONG

UNANSWERED = (
    "services/order/state.py",
    ("        if self.cancel is Cancel.REQUESTED and self.parcel is Parcel.OPEN:\n            return False\n", ""),
)
"""An order does not wait for what dispatch answers to a wish."""

OPEN = STOCK, ("if reservation.asked else", "if reservation.asked or isinstance(event, DispatchCancelled) else")
"""A cancellation that comes when its order is forgotten begins a reservation that nothing closes."""

_ENDED = "        case OrderCompleted() | OrderCancelled():\n"


def overdue_orders_end_without_asking(patch: pytest.MonkeyPatch) -> None:
    def end(_: Order, meta: Meta) -> list[Event]:
        return [OrderCancelled(order_id=meta.subject, reason="overdue", refunded_cents=0, currency="GBP")]

    patch.setattr(orders.deadlines["overdue_at"], "handler", Handler(end, (OrderCancelled,), wants_meta=True))


def silence_of_the_gateway_is_a_refusal(patch: pytest.MonkeyPatch) -> None:
    def refused(request: Event) -> Event:
        return PaymentFailed(order_id=key_of(request) or "", reason="declined")

    right = payments.effects[ChargeRequested]
    wrong: dict[type[Event], Effect] = {ChargeRequested: replace(right, otherwise=refused, uncertain=(PaymentFailed,))}
    patch.setattr(payments, "effects", {**payments.effects, **wrong})


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

    wrong: dict[type[Event], Effect] = {DispatchRequested: replace(right, ask=replace(right.ask, call=dispatch))}
    patch.setattr(shipments, "effects", {**shipments.effects, **wrong})


def of(name: str, invariant: str) -> Mutant:
    """Return a wrong decision as a mutant."""
    wrong = WRONG[name]
    return Mutant(written(wrong.file, (wrong.before, wrong.after)), invariant, wrong.seed)


SERVICES: dict[str, Mutant] = {
    "no refund for a charge that lands late": of("a late charge is kept", "orders_come_to_an_end"),
    "an uncertain charge is left as it is": changed(
        PAYMENT, "[_void(payment, charge.order_id, charge.reason)] if", "[] if", "orders_come_to_an_end", seed=20
    ),
    "a charge whatever came before": of("a charge after the order was called off", "charges_follow_stock"),
    "a refund before the charge": changed(
        PAYMENT, "case Stage.TAKEN:", "case Stage.TAKEN | Stage.CHARGING:", "money_is_conserved", seed=274
    ),
    "a line that comes late is kept": changed(
        STOCK,
        "if reservation.refused or reservation.called_off:",
        "if reservation.called_off:\n        return []\n    if reservation.refused:",
        "cancelled_orders_leave_nothing",
        seed=1,
    ),
    "a release twice": changed(
        STOCK,
        "return _let_go(reservation, failure.order_id)",
        "return (1 + isinstance(failure, DispatchCancelled)) * _let_go(reservation, failure.order_id)",
        "steps_happen_once",
        seed=2,
    ),
    "rejected before all lines are back": changed(
        STOCK,
        '"""Release what is held; reject if nothing is held and every shelf has answered."""',
        "return [StockRejected(order_id=line.order_id, reason=line.reason)]",
        "cancelled_orders_leave_nothing",
        seed=74,
    ),
    "cancelled while the carrier is asked": changed(
        DISPATCH, "match shipment.stage:", "match Stage.NEW:", "cancelled_parcels_stay", seed=15
    ),
    "a wish that waited is not answered": of("a wish that waited is not refused", "wishes_are_answered"),
    "an order ends before its money is back": changed(
        ORDER,
        'returned, in either order."""\n    return',
        'returned."""\n    if isinstance(part, StockReleased):\n'
        '        end = {"reason": order.reason, "refunded_cents": 0, "currency": "GBP"}\n'
        "        return [OrderCancelled(order_id=part.order_id, **end)]\n    return",
        "cancelled_orders_leave_nothing",
        seed=2,
    ),
    "an order ends before dispatch has answered": Mutant(written(*UNANSWERED), "facts_are_numbered", seed=1244),
    "an order is placed again": of("an order is placed again", "steps_happen_once"),
    "an early wish is forgotten": changed(
        ORDER, "if not order.cancel_reason:", "if True:", "wishes_are_answered", seed=2
    ),
    "a late wish is not answered": changed(
        ORDER,
        "return [CancelRefused(order_id=wish.order_id, reason=order.status)]",
        "return []",
        "wishes_are_answered",
        seed=5,
    ),
    "stock takes no notice of a cancellation": changed(
        STOCK, "DispatchFailed() | DispatchCancelled():", "DispatchFailed():", "nothing_stays_parked", seed=1
    ),
    "dispatch takes no notice of its cancellation": changed(
        DISPATCH,
        "case DispatchRequested():",
        "case DispatchCancelled():\n            return shipment\n        case DispatchRequested():",
        "cancelled_parcels_stay",
        seed=17,
    ),
    "payment takes no notice of a cancellation": changed(
        PAYMENT,
        "case DispatchFailed() | DispatchCancelled():",
        "case DispatchFailed():",
        "orders_come_to_an_end",
        seed=17,
    ),
    "a waived payment is forgotten too soon": changed(
        PAYMENT,
        _ENDED,
        f"        case PaymentWaived():\n            return replace(payment, stage=Stage.WAIVED, ended_at=meta.recorded_at)\n{_ENDED}",
        "facts_are_numbered",
        seed=595,
    ),
    "a shipment is forgotten too soon": changed(
        DISPATCH,
        _ENDED,
        "        case OrderDispatched():\n"
        f"            return replace(shipment, stage=Stage.DISPATCHED, ended_at=meta.recorded_at)\n{_ENDED}",
        "facts_are_numbered",
        seed=685,
    ),
    "a deadline that ignores what races with it": Mutant(
        overdue_orders_end_without_asking, "cancelled_orders_leave_nothing", seed=1
    ),
    "a cancellation opens what was forgotten": Mutant(written(*OPEN), "reservations_are_forgotten", seed=1244),
    "silence taken for a refusal": Mutant(silence_of_the_gateway_is_a_refusal, "the_gateway_agrees", seed=20),
    "two questions in one effect": Mutant(two_questions_in_one_effect, "the_carrier_agrees", seed=256),
}
