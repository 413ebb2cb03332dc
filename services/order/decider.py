"""The order decider: opens an order, forwards a cancel request, and emits how the order ended."""

from datetime import datetime, timedelta

from eventlib import Decider, Meta, SagaState
from services.dispatch.events import (
    BookingAccepted,
    CancelRefused,
    DispatchCancelled,
    DispatchFailed,
    OrderDispatched,
)
from services.order.events import (
    CancelSubmitted,
    OrderCancelled,
    OrderCancelRequested,
    OrderCompleted,
    OrderPlaced,
    OrderSubmitted,
)
from services.order.evolve import follow
from services.order.state import Cancel, Order, Parcel
from services.payment.events import (
    ChargeUncertain,
    PaymentFailed,
    PaymentRefunded,
    PaymentTaken,
    PaymentVoided,
    PaymentWaived,
)
from services.stock.events import StockRejected, StockReleased, StockReserved, StockShipped

LONGEST = timedelta(hours=24)
"""How long an order may stay open before it is cancelled as overdue."""

OVERDUE = "overdue"

orders = Decider("order", state=Order, key="order_id")
orders.evolve(follow)


@orders.on
def place(order: Order, asked: OrderSubmitted, meta: Meta) -> list[OrderPlaced | OrderCancelRequested]:
    """Open the order; forward a cancel request that arrived first."""
    if order.opened_at is not None:
        return []
    placed = OrderPlaced(
        order_id=asked.order_id,
        customer_id=asked.customer_id,
        country=asked.country,
        currency=asked.currency,
        amount_cents=sum(line.quantity * line.unit_price_cents for line in asked.lines),
        lines=asked.lines,
        placed_at=asked.placed_at or meta.recorded_at,
    )
    if not order.cancel_reason:
        return [placed]
    return [placed, OrderCancelRequested(order_id=asked.order_id, reason=order.cancel_reason)]


@orders.on
def cancel(order: Order, wish: CancelSubmitted) -> list[OrderCancelRequested | CancelRefused]:
    """Ask dispatch to decide; an order already decided is final, and answered here."""
    if order.ended_at is not None:
        return [CancelRefused(order_id=wish.order_id, reason=order.status)]
    if order.cancel is Cancel.REFUSED:
        return [CancelRefused(order_id=wish.order_id, reason="dispatched")]
    if order.opened_at is None or order.cancel is Cancel.REQUESTED or order.reason:
        return []
    return [OrderCancelRequested(order_id=wish.order_id, reason=wish.reason)]


def standing(order: Order) -> SagaState | None:
    """Return an order's saga status, or None if it was not submitted yet."""
    if order.opened_at is None:
        return None
    has_ended = order.ended_at is not None
    is_overdue = not has_ended and order.cancel_reason == OVERDUE
    # A compensation does not give up, and has no deadline: an order that waits for its refund is late all the same.
    return SagaState(order.status.value, has_ended, is_overdue, order.opened_at + LONGEST)


@orders.deadline
def overdue_at(order: Order) -> datetime | None:
    """Return when an order that can still complete becomes overdue; a carrier that agreed to come has a deadline of its own."""
    if order.opened_at is None or order.ended_at is not None or order.reason or order.cancel is not Cancel.NONE:
        return None
    return None if order.parcel is Parcel.PLANNED else order.opened_at + LONGEST


@overdue_at.passed
def give_up(_: Order, meta: Meta) -> list[OrderCancelRequested]:
    """Ask dispatch to cancel an overdue order, as a customer would."""
    return [OrderCancelRequested(order_id=meta.subject, reason=OVERDUE)]


@orders.on
def complete(order: Order, part: StockShipped | PaymentTaken) -> list[OrderCompleted]:
    """Complete the order once it is dispatched and paid, in either order."""
    if order.ended_at is not None or not order.is_fulfilled:
        return []
    return [OrderCompleted(order_id=part.order_id, amount_cents=order.amount_cents, currency=order.currency)]


@orders.on
def close(
    order: Order,
    part: StockRejected | StockReleased | PaymentFailed | PaymentVoided | PaymentRefunded | PaymentWaived,
) -> list[OrderCancelled]:
    """Cancel the order once its stock is released and its money returned, in either order."""
    return _end(order, part.order_id)


@orders.on
def answered(order: Order, part: DispatchFailed | DispatchCancelled) -> list[OrderCancelled]:
    """Cancel the order if only dispatch's answer to a cancel request was missing."""
    return _end(order, part.order_id)


orders.follows(
    StockReserved, ChargeUncertain, BookingAccepted, OrderDispatched, CancelRefused
)  # these close neither the stock nor the payment


def _end(order: Order, order_id: str) -> list[OrderCancelled]:
    if order.ended_at is not None or not order.is_undone:
        return []
    return [
        OrderCancelled(
            order_id=order_id,
            reason=order.reason,
            refunded_cents=order.refunded_cents,
            currency=order.currency,
        )
    ]
