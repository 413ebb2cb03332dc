"""Dispatch's effects: calls of the carrier, and the events they emit."""

from eventlib import FOREVER, Meta, Retry
from services.dispatch.decider import collected_by, shipments
from services.dispatch.events import (
    BookingAccepted,
    DispatchFailed,
    DispatchRequested,
    DispatchUncertain,
    OrderDispatched,
    ParcelCollected,
    ParcelRefused,
    RecallRequested,
)
from services.dispatch.ports import Booked, Carrier, Planned, Recalled, Undeliverable

CARRIER_SILENT = "carrier_silent"


def uncertain(request: DispatchRequested) -> DispatchUncertain:
    """Emit that the outcome of the booking is unknown."""
    return DispatchUncertain(order_id=request.order_id, reason=CARRIER_SILENT)


@shipments.effect(
    DispatchRequested,
    retry=Retry(attempts=5),
    timeout_s=10,
    otherwise=uncertain,
    awaits=(ParcelCollected, ParcelRefused),
    within=collected_by,
)
async def dispatch(
    request: DispatchRequested, carrier: Carrier, meta: Meta
) -> OrderDispatched | BookingAccepted | DispatchFailed:
    """Book with the carrier; the request's id is the idempotency key."""
    match await carrier.book(meta.id, request.order_id, request.country):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Planned():
            return BookingAccepted(order_id=request.order_id)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)


@shipments.effect(RecallRequested, retry=FOREVER, timeout_s=10)
async def recall(request: RecallRequested, carrier: Carrier) -> OrderDispatched | DispatchFailed:
    """Cancel a booking of unknown outcome, or one that was not fetched in time, unless the parcel has left; a compensation retries without limit."""
    match await carrier.recall(request.booking_key):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Recalled():
            return DispatchFailed(order_id=request.order_id, reason=request.reason)
