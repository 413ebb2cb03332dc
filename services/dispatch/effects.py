"""What dispatch asks of the carrier, and what its answers mean."""

from eventlib.effect import Retry
from eventlib.event import Meta
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchFailed, DispatchRequested, OrderDispatched
from services.dispatch.ports import Booked, Carrier, Recalled, Undeliverable

CARRIER_SILENT = "carrier_silent"


async def recall(request: DispatchRequested, carrier: Carrier, meta: Meta) -> OrderDispatched | DispatchFailed:
    """Ask a carrier that did not answer to cancel the booking: a parcel may be on its way, so time alone tells nothing."""
    match await carrier.recall(meta.id):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Recalled():
            return DispatchFailed(order_id=request.order_id, reason=CARRIER_SILENT)


@shipments.effect(DispatchRequested, retry=Retry(attempts=5), timeout_s=10, otherwise=recall)
async def dispatch(request: DispatchRequested, carrier: Carrier, meta: Meta) -> OrderDispatched | DispatchFailed:
    """Book with the carrier, under the request's id."""
    match await carrier.book(meta.id, request.order_id, request.country):
        case Booked(tracking=tracking):
            return OrderDispatched(order_id=request.order_id, tracking=tracking)
        case Undeliverable(reason=reason):
            return DispatchFailed(order_id=request.order_id, reason=reason)
