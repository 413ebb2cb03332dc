"""Thing's public events: the requests it accepts and the events it emits."""

from eventlib import Event


class ThingRequested(Event, topic="thing.requests", key="customer_id", request=True):
    """Somebody asks for units; asked twice under one idempotency key, it is answered once."""

    customer_id: str
    units: int


class ThingGranted(Event, topic="thing", key="customer_id", final=True):
    """A customer has so many units more."""

    customer_id: str
    units: int


class ThingRefused(Event, topic="thing", key="customer_id", final=True, failure=True):
    """A customer would have had too many units, or asked for none."""

    customer_id: str
    units: int
    reason: str
