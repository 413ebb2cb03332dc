"""Applies each event to its order; the first reason against an order stays."""

from eventlib import Event, Meta, replace
from services.dispatch.events import (
    BookingAccepted,
    CancelRefused,
    DispatchCancelled,
    DispatchFailed,
    OrderDispatched,
)
from services.order.events import CancelSubmitted, OrderCancelled, OrderCancelRequested, OrderCompleted, OrderPlaced
from services.order.state import Cancel, Money, Order, Parcel, Stock
from services.payment.events import (
    ChargeUncertain,
    PaymentFailed,
    PaymentRefunded,
    PaymentTaken,
    PaymentVoided,
    PaymentWaived,
)
from services.stock.events import StockRejected, StockReleased, StockReserved, StockShipped


def follow(order: Order, event: Event, meta: Meta) -> Order:  # noqa: PLR0911  one return for each kind of event
    """Return the order after one event."""
    match event:
        case StockReserved() | StockRejected() | StockReleased() | StockShipped():
            return _stock(order, event)
        case PaymentTaken(amount_cents=cents):
            return replace(order, money=Money.TAKEN, taken_cents=cents)
        case BookingAccepted() | OrderDispatched() | DispatchFailed() | DispatchCancelled():
            return _parcel(order, event)
        case OrderPlaced():
            return _opened(order, event, meta)
        case OrderCompleted() | OrderCancelled():
            return replace(order, ended_at=meta.recorded_at)
        case CancelSubmitted() | OrderCancelRequested() | CancelRefused():
            return _cancel(order, event)
        case PaymentFailed() | ChargeUncertain() | PaymentVoided() | PaymentRefunded() | PaymentWaived():
            return _unpaid(order, event)
        case _:
            return order


def _opened(order: Order, placed: OrderPlaced, meta: Meta) -> Order:
    return replace(
        order,
        customer_id=placed.customer_id,
        country=placed.country,
        currency=placed.currency,
        amount_cents=placed.amount_cents,
        line_count=len(placed.lines),
        placed_at=placed.placed_at,
        opened_at=meta.recorded_at,
    )


def _stock(order: Order, event: StockReserved | StockRejected | StockReleased | StockShipped) -> Order:
    match event:
        case StockReserved():
            return replace(order, stock=Stock.RESERVED)
        case StockShipped():
            return replace(order, stock=Stock.SHIPPED)
        case StockRejected(reason=reason):
            return replace(order, stock=Stock.REJECTED, reason=order.reason or reason)
        case StockReleased(reason=reason):
            return replace(order, stock=Stock.RELEASED, reason=order.reason or reason)


def _parcel(order: Order, event: BookingAccepted | OrderDispatched | DispatchFailed | DispatchCancelled) -> Order:
    match event:
        case BookingAccepted():  # it may come after a callback, by which the outcome is known
            return replace(order, parcel=Parcel.PLANNED) if order.parcel is Parcel.OPEN else order
        case OrderDispatched(tracking=tracking):
            return replace(order, parcel=Parcel.DISPATCHED, tracking=tracking)
        case DispatchFailed(reason=reason):
            return replace(order, parcel=Parcel.FAILED, reason=order.reason or reason)
        case DispatchCancelled(reason=reason):
            return replace(order, parcel=Parcel.CANCELLED, reason=order.reason or reason)


def _cancel(order: Order, event: CancelSubmitted | OrderCancelRequested | CancelRefused) -> Order:
    match event:
        case CancelSubmitted(reason=reason):
            return replace(order, cancel_reason=order.cancel_reason or reason)
        case OrderCancelRequested(reason=reason):
            return replace(order, cancel=Cancel.REQUESTED, cancel_reason=reason)
        case CancelRefused():
            return replace(order, cancel=Cancel.REFUSED)


def _unpaid(
    order: Order, event: PaymentFailed | ChargeUncertain | PaymentVoided | PaymentRefunded | PaymentWaived
) -> Order:
    reason = order.reason or event.reason
    match event:
        case PaymentFailed():
            return replace(order, money=Money.FAILED, reason=reason)
        case ChargeUncertain():  # it may come after a callback, by which the outcome is known
            return replace(order, money=Money.UNCERTAIN, reason=reason) if order.money is Money.OPEN else order
        case PaymentVoided(amount_cents=cents):
            return replace(order, money=Money.VOIDED, reason=reason, taken_cents=cents, refunded_cents=cents)
        case PaymentRefunded(amount_cents=cents):
            return replace(order, money=Money.REFUNDED, reason=reason, refunded_cents=cents)
        case PaymentWaived():
            return replace(order, money=Money.WAIVED, reason=reason)
