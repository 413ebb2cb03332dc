"""The shipment decider: books with the carrier, and alone decides whether an order can still be cancelled."""

from datetime import datetime, timedelta

from eventlib import Decider, Event, Meta, replace
from services.dispatch.events import (
    BookingAccepted,
    CancelRefused,
    DispatchCancelled,
    DispatchFailed,
    DispatchRequested,
    DispatchUncertain,
    OrderDispatched,
    ParcelCollected,
    ParcelRefused,
    RecallRequested,
)
from services.dispatch.state import Shipment, Stage
from services.order.events import OrderCancelled, OrderCancelRequested, OrderCompleted
from services.payment.events import PaymentTaken

KEPT = timedelta(days=1)
"""How long an ended order's shipment is remembered. A dispatched one must outlive the order: otherwise a late cancel
request would be granted."""

COLLECT_WITHIN = timedelta(days=2)
"""How long a carrier has to fetch a parcel for which it agreed to come."""

PARCEL_UNCOLLECTED = "parcel_uncollected"

shipments = Decider("shipment", state=Shipment, key="order_id")


_UNDECIDED = frozenset({Stage.ASKED, Stage.RECALLING})

_REACHED: dict[type[Event], Stage] = {
    RecallRequested: Stage.RECALLING,
    OrderDispatched: Stage.DISPATCHED,
    DispatchFailed: Stage.FAILED,
    DispatchCancelled: Stage.CANCELLED,
}


@shipments.evolve
def follow(shipment: Shipment, event: Event, meta: Meta) -> Shipment:  # noqa: PLR0911  one return for each event
    """Track the booking: it is requested at most once, and never after a cancellation.

    The booking's idempotency key is the id of the event that requests it.
    """
    match event:
        case DispatchRequested():
            return replace(shipment, stage=Stage.ASKED, booking_key=meta.id)
        case BookingAccepted() if shipment.stage is Stage.ASKED:  # it may come when a callback has ended all, days ago
            return replace(shipment, accepted_at=meta.recorded_at)
        case ParcelCollected(booking_key=shipment.booking_key):
            return replace(shipment, tracking=event.tracking)
        case OrderCompleted() | OrderCancelled():
            return replace(shipment, ended_at=meta.recorded_at)
        case OrderCancelRequested():
            return replace(shipment, cancel_waits=shipment.stage in _UNDECIDED, cancel_reason=event.reason)
        case CancelRefused():
            return replace(shipment, cancel_waits=False)
        case _:
            stage = _REACHED.get(type(event))
            return shipment if stage is None else replace(shipment, stage=stage)


@shipments.on
def book(shipment: Shipment, payment: PaymentTaken) -> list[DispatchRequested]:
    """Request the booking, unless the order was cancelled: the point of no return."""
    if shipment.stage is not Stage.NEW:
        return []
    return [DispatchRequested(order_id=payment.order_id, country=payment.country)]


@shipments.on
def accepted(shipment: Shipment, booking: BookingAccepted) -> list[OrderDispatched | RecallRequested]:
    """Wait for the callback, unless it came first, or a wish to cancel came meanwhile."""
    if shipment.stage is Stage.ASKED and shipment.cancel_waits and not shipment.tracking:
        return [_recall(shipment, booking.order_id, shipment.cancel_reason)]
    return [*_settled(shipment, booking.order_id)]


@shipments.on
def collected(shipment: Shipment, parcel: ParcelCollected) -> list[OrderDispatched]:
    """Count the order as dispatched; a booking that is recalled already is left to the recall."""
    return _settled(shipment, parcel.order_id)


@shipments.on
def refused(shipment: Shipment, booking: ParcelRefused) -> list[DispatchFailed]:
    """End a booking that still waits; a recall may have come before."""
    if shipment.stage is not Stage.ASKED or booking.booking_key != shipment.booking_key:
        return []
    return [DispatchFailed(order_id=booking.order_id, reason=booking.reason)]


@shipments.deadline
def collected_by(shipment: Shipment) -> datetime | None:
    """Return when a parcel has to be fetched for which the carrier agreed to come."""
    accepted_at = shipment.accepted_at if shipment.stage is Stage.ASKED else None
    return None if accepted_at is None else accepted_at + COLLECT_WITHIN


@collected_by.passed
def uncollected(shipment: Shipment, meta: Meta) -> list[RecallRequested]:
    """Recall the booking: the carrier says whether the parcel has left all the same."""
    return [_recall(shipment, meta.subject, PARCEL_UNCOLLECTED)]


@shipments.on
def recall(shipment: Shipment, booking: DispatchUncertain) -> list[RecallRequested]:
    """Recall the booking: the parcel may be on its way, which waiting cannot resolve."""
    return [_recall(shipment, booking.order_id, booking.reason)] if shipment.stage is Stage.ASKED else []


@shipments.on
def cancel(
    shipment: Shipment, request: OrderCancelRequested
) -> list[DispatchCancelled | CancelRefused | RecallRequested]:
    """Cancel before the booking is requested, recall what waits to be fetched, refuse once dispatched; in between, wait."""
    match shipment.stage:
        case Stage.NEW:
            return [DispatchCancelled(order_id=request.order_id, reason=request.reason)]
        case Stage.DISPATCHED:
            return [_too_late(request.order_id)]
        case Stage.ASKED if shipment.accepted_at is not None:
            return [_recall(shipment, request.order_id, request.reason)]
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


def _settled(shipment: Shipment, order_id: str) -> list[OrderDispatched]:
    """Dispatch the order when both are there, in whatever order: the carrier's own answer, and its callback."""
    if shipment.stage is not Stage.ASKED or shipment.accepted_at is None or not shipment.tracking:
        return []
    return [OrderDispatched(order_id=order_id, tracking=shipment.tracking)]


def _recall(shipment: Shipment, order_id: str, reason: str) -> RecallRequested:
    return RecallRequested(order_id=order_id, booking_key=shipment.booking_key, reason=reason)


def _too_late(order_id: str) -> CancelRefused:
    return CancelRefused(order_id=order_id, reason="dispatched")
