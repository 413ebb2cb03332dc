"""What dispatch tells: what the carrier is asked, what it answers, and what became of a wish to cancel."""

from eventlib import Event
from services.fields import Country, GatewayKey, OrderId, Reason


class DispatchRequested(Event, topic="dispatches", key="order_id"):
    """The carrier is asked to fetch an order: the point of no return. This event's id is the booking's key."""

    order_id: OrderId
    country: Country


class DispatchUncertain(Event, topic="dispatches", key="order_id"):
    """The carrier did not say whether it has the order, for as long as it was asked."""

    order_id: OrderId
    reason: Reason


class RecallRequested(Event, topic="dispatches", key="order_id"):
    """The carrier is asked to cancel a booking, whether it was made or not, and to refuse its key from now on."""

    order_id: OrderId
    booking_key: GatewayKey
    reason: Reason


class OrderDispatched(Event, topic="dispatches", key="order_id"):
    """The carrier has the order; `tracking` is its own reference."""

    order_id: OrderId
    tracking: str


class DispatchFailed(Event, topic="dispatches", key="order_id", failure=True, reverses=OrderDispatched):
    """The carrier will not bring the order: `undeliverable`, or `carrier_silent` and recalled, whether it was booked or not."""

    order_id: OrderId
    reason: Reason


class DispatchCancelled(Event, topic="dispatches", key="order_id", failure=True):
    """The order was cancelled before the carrier was asked, and the carrier will never be."""

    order_id: OrderId
    reason: Reason


class CancelRefused(Event, topic="dispatches", key="order_id"):
    """A wish to cancel came too late; `reason` says what had happened already."""

    order_id: OrderId
    reason: Reason
