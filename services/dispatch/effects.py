"""Dispatch's effects: calls of the carrier, and the events they emit."""

from eventlib import FOREVER, Meta, Retry
from services.dispatch.decider import shipments
from services.dispatch.events import (
    DispatchFailed,
    DispatchRequested,
    DispatchUncertain,
    OrderDispatched,
    RecallRequested,
)
from services.dispatch.ports import Booked, Carrier, Recalled, Undeliverable

CARRIER_SILENT = "carrier_silent"


def uncertain(request: DispatchRequested) -> DispatchUncertain:
    """Emit that the outcome of the booking is unknown."""
    return DispatchUncertain(order_id=request.order_id, reason=CARRIER_SILENT)


@shipments.effect(DispatchRequested, retry=Retry(attempts=5), timeout_s=10, otherwise=uncertain)
async def dispatch(request: DispatchRequested, carrier: Carrier, meta: Meta) -> OrderDispatched | DispatchFailed:
    """Book with the carrier; the request's id is the idempotency key."""
    match await carrier.book(meta.id, request.order_id, request.country):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)


@shipments.effect(RecallRequested, retry=FOREVER, timeout_s=10)
async def recall(request: RecallRequested, carrier: Carrier) -> OrderDispatched | DispatchFailed:
    """Cancel a booking of unknown outcome, unless the parcel has left; a compensation retries without limit."""
    match await carrier.recall(request.booking_key):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Recalled():
            return DispatchFailed(order_id=request.order_id, reason=request.reason)
