"""Which orders wait for a person, because an input or effect of theirs is parked."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventlib import EventLog
from eventlib.operations import Parking, parkings, waiting_inputs


@dataclass(frozen=True, slots=True)
class WaitingOrder:
    """An order that cannot continue, and the key that it waits for."""

    order_id: str
    service: str
    decider: str
    key: str
    reason: str


async def waiting_orders(log: EventLog, open_orders: Mapping[str, str]) -> dict[str, WaitingOrder]:
    """Return those of the open orders (correlation id to order id) that wait for something parked, by order id."""
    found: dict[str, WaitingOrder] = {}
    for parking in await parkings(log):
        for waiting in await waiting_inputs(log, parking):
            order_id = open_orders.get(waiting.record.correlation_id or "")
            if order_id is not None:
                found.setdefault(order_id, _waiting(order_id, parking))
    return found


def _waiting(order_id: str, parking: Parking) -> WaitingOrder:
    return WaitingOrder(order_id, parking.service, parking.decider, parking.key, parking.reason)
