"""The shipment decider: it asks the carrier, and it alone decides whether an order can still be cancelled."""

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
"""How long an ended order's shipment is remembered. One that is on its way must outlive the order: a wish to cancel
that comes late would be granted."""

shipments = Decider("shipment", state=Shipment, key="order_id")


_UNDECIDED = frozenset({Stage.ASKED, Stage.RECALLING})


@shipments.evolve
def follow(shipment: Shipment, event: Event, meta: Meta) -> Shipment:  # noqa: PLR0911  one return for each event
    """Follow the booking: the carrier is asked at most once, and never after a cancellation.

    The booking's key is the id of the event that asks for it.
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
    """Ask the carrier, unless the order was cancelled: this is the point of no return."""
    if shipment.stage is not Stage.NEW:
        return []
    return [DispatchRequested(order_id=payment.order_id, country=payment.country)]


@shipments.on
def recall(shipment: Shipment, booking: DispatchUncertain) -> list[RecallRequested]:
    """Ask the carrier to cancel: a parcel may be on its way, so time alone tells nothing."""
    return [RecallRequested(order_id=booking.order_id, booking_key=shipment.booking_key, reason=booking.reason)]


@shipments.on
def cancel(shipment: Shipment, wish: OrderCancelRequested) -> list[DispatchCancelled | CancelRefused]:
    """Grant the wish before the carrier was asked, refuse it once the order is on its way; in between it waits."""
    match shipment.stage:
        case Stage.NEW:
            return [DispatchCancelled(order_id=wish.order_id, reason=wish.reason)]
        case Stage.DISPATCHED:
            return [_too_late(wish.order_id)]
        case _:
            return []


@shipments.on
def dispatched(shipment: Shipment, order: OrderDispatched) -> list[CancelRefused]:
    """Refuse the wish to cancel that waited for the carrier."""
    return [_too_late(order.order_id)] if shipment.cancel_waits else []


shipments.follows(DispatchFailed)  # which calls the order off by itself


shipments.follows(OrderCompleted, OrderCancelled)  # it can be forgotten after a while


@shipments.forget
def forgotten_at(shipment: Shipment) -> datetime | None:
    """Return when an ended order's shipment is given up."""
    return None if shipment.ended_at is None else shipment.ended_at + KEPT


def _too_late(order_id: str) -> CancelRefused:
    return CancelRefused(order_id=order_id, reason="dispatched")
