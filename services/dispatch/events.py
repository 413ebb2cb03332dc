"""The events of the dispatch service: the carrier's requests and answers, and the outcome of a wish to cancel."""

from datetime import timedelta

from eventlib import Event
from services.fields import Country, GatewayKey, OrderId, Reason

AGAIN = timedelta(days=3)
"""For how long the carrier repeats a callback that was not answered."""


class DispatchRequested(Event, topic="dispatches", key="order_id"):
    """The carrier is asked to fetch an order: the point of no return. This event's id is the booking's key."""

    order_id: OrderId
    country: Country


class BookingAccepted(Event, topic="dispatches", key="order_id"):
    """The carrier will come for the parcel, and calls back when it has it."""

    order_id: OrderId


class ParcelCollected(Event, topic="dispatch.callbacks", key="order_id", request=True, once_for=AGAIN):
    """The carrier reports that it has fetched a parcel for which it had promised to come."""

    order_id: OrderId
    booking_key: GatewayKey
    tracking: str


class ParcelRefused(Event, topic="dispatch.callbacks", key="order_id", request=True, once_for=AGAIN, failure=True):
    """The carrier reports that it has not fetched such a parcel, and will not."""

    order_id: OrderId
    booking_key: GatewayKey
    reason: Reason


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


LEAVING = (BookingAccepted, ParcelCollected, OrderDispatched)
"""By which a parcel leaves the shop; a booking that fails takes it back."""


class DispatchFailed(Event, topic="dispatches", key="order_id", failure=True, reverses=LEAVING):
    """The carrier will not bring the order: `undeliverable`, or recalled, whether it was booked or not.

    It was recalled as `carrier_silent`, as `parcel_uncollected`, or for the reason of a wish to cancel.
    """

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
