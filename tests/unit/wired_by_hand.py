"""Events, a state and a decider without handlers, for tests of what may be wired with them."""

from dataclasses import dataclass

from eventlib import Decider, Event


class Asked(Event, topic="asked", key="order_id"):
    order_id: str


class Granted(Event, topic="granted", key="order_id"):
    order_id: str


class BySku(Event, topic="shelves", key="sku"):
    sku: str


@dataclass(frozen=True)
class State:
    count: int = 0


def orders() -> "Decider[State]":
    return Decider("order", state=State, key="order_id")
