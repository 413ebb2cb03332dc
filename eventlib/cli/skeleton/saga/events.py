"""Thing's public events: the requests it accepts, the steps of an order, and how it ends."""

from eventlib import Event


class OrderRequested(Event, topic="thing.requests", key="order_id", request=True):
    """A customer orders; asked twice under one idempotency key, it is answered once."""

    order_id: str
    amount_cents: int


class OrderConfirmed(Event, topic="thing.requests", key="order_id", request=True):
    """The customer confirms the order, before the deadline or too late."""

    order_id: str


class ChargeRequested(Event, topic="thing", key="order_id"):
    """The bank is to take the money: an effect asks it."""

    order_id: str
    amount_cents: int


class OrderCharged(Event, topic="thing", key="order_id"):
    """The bank has taken the money under this key."""

    order_id: str
    charge_key: str


class OrderDeclined(Event, topic="thing", key="order_id", final=True, failure=True):
    """The bank has not taken the money, and will not."""

    order_id: str


class RefundRequested(Event, topic="thing", key="order_id"):
    """It was not confirmed in time, so the bank is to return the money: an effect asks it."""

    order_id: str
    charge_key: str


class OrderRefunded(Event, topic="thing", key="order_id", final=True, reverses=OrderCharged):
    """The bank has returned the money: the compensation of the charge."""

    order_id: str


class OrderCompleted(Event, topic="thing", key="order_id", final=True):
    """The order is paid and confirmed."""

    order_id: str
