"""The smallest service there can be, and events for a decider that a test wires by hand."""

from dataclasses import dataclass
from typing import Never

from eventlib import Decider, Event, Service


class Asked(Event, topic="asked", key="order_id"):
    order_id: str


class Granted(Event, topic="granted", key="order_id"):
    order_id: str


class Said(Event, topic="small.said", key="key", request=True):
    """Something that a small service listens to."""

    key: str


@dataclass(frozen=True)
class Count:
    """How often something was heard."""

    times: int = 0


def orders() -> Decider[Count]:
    """Return a decider without handlers."""
    return Decider("order", state=Count, key="order_id")


def noting(name: str = "small") -> Service:
    """Return a service that hears, and says nothing."""
    decider: Decider[Count] = Decider(name, state=Count, key="key")

    @decider.on(Said)
    def note(_count: Count, _said: Said) -> list[Never]:
        return []

    return Service(name, deciders=[decider])
