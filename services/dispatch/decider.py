"""The shipment decider: books with the carrier, and alone decides whether an order can still be cancelled."""

from datetime import datetime, timedelta

from eventlib import Decider, Event, Meta, replace
from services.dispatch.events import (
    CancelRefused,
    DispatchCancelled,
    DispatchFailed,
    DispatchRequested,
    DispatchUncertain,
    OrderDispatched,
    RecallRequested,
)
from services.dispatch.state import Shipment, Stage
from services.order.events import OrderCancelled, OrderCancelRequested, OrderCompleted
from services.payment.events import PaymentTaken

KEPT = timedelta(days=1)
"""How long an ended order's shipment is remembered. A dispatched one must outlive the order: otherwise a late cancel
request would be granted."""

shipments = Decider("shipment", state=Shipment, key="order_id")


_UNDECIDED = frozenset({Stage.ASKED, Stage.RECALLING})


@shipments.evolve
def follow(shipment: Shipment, event: Event, meta: Meta) -> Shipment:  # noqa: PLR0911  one return for each event
    """Track the booking: it is requested at most once, and never after a cancellation.

    The booking's idempotency key is the id of the event that requests it.
    """
    match event:
        case DispatchRequested():
            return replace(shipment, stage=Stage.ASKED, booking_key=meta.id)
        case RecallRequested():
            return replace(shipment, stage=Stage.RECALLING)
        case OrderDispatched():
            return replace(shipment, stage=Stage.DISPATCHED)
        case OrderCompleted() | OrderCancelled():
            return replace(shipment, ended_at=meta.recorded_at)
        case OrderCancelRequested():
            return replace(shipment, cancel_waits=shipment.stage in _UNDECIDED)
        case DispatchFailed():
            return replace(shipment, stage=Stage.FAILED)
        case DispatchCancelled():
            return replace(shipment, stage=Stage.CANCELLED)
        case CancelRefused():
            return replace(shipment, cancel_waits=False)
        case _:
            return shipment


@shipments.on
def book(shipment: Shipment, payment: PaymentTaken) -> list[DispatchRequested]:
    """Request the booking, unless the order was cancelled: the point of no return."""
    if shipment.stage is not Stage.NEW:
        return []
    return [DispatchRequested(order_id=payment.order_id, country=payment.country)]


@shipments.on
def recall(shipment: Shipment, booking: DispatchUncertain) -> list[RecallRequested]:
    """Recall the booking: the parcel may be on its way, which waiting cannot resolve."""
    return [RecallRequested(order_id=booking.order_id, booking_key=shipment.booking_key, reason=booking.reason)]


@shipments.on
def cancel(shipment: Shipment, request: OrderCancelRequested) -> list[DispatchCancelled | CancelRefused]:
    """Cancel before the booking is requested, refuse once dispatched; in between, wait."""
    match shipment.stage:
        case Stage.NEW:
            return [DispatchCancelled(order_id=request.order_id, reason=request.reason)]
        case Stage.DISPATCHED:
            return [_too_late(request.order_id)]
        case _:
            return []


@shipments.on
def dispatched(shipment: Shipment, order: OrderDispatched) -> list[CancelRefused]:
    """Refuse the cancel request that waited for the carrier."""
    return [_too_late(order.order_id)] if shipment.cancel_waits else []


shipments.follows(DispatchFailed)  # the event itself calls the order off


shipments.follows(OrderCompleted, OrderCancelled)  # allows the key to be forgotten


@shipments.forget
def forgotten_at(shipment: Shipment) -> datetime | None:
    """Return when an ended order's shipment is forgotten."""
    return None if shipment.ended_at is None else shipment.ended_at + KEPT


def _too_late(order_id: str) -> CancelRefused:
    return CancelRefused(order_id=order_id, reason="dispatched")
