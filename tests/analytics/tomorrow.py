"""Other rules for the shop, for tests of what would have been."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from analytics.whatif import rewritten
from eventlib import Event, Meta
from eventlib.simulation import Choices
from services import shop
from services.dispatch.ports import Booked
from services.order.decider import LONGEST, give_up, orders
from services.order.decider import overdue_at as overdue_today
from services.order.decider import place as place_today
from services.order.events import OrderCancelled, OrderCancelRequested, OrderPlaced, OrderSubmitted
from services.order.state import Order
from services.payment.ports import Charged, Declined
from services.stock.events import DeliverySubmitted

LARGE_CENTS = 2_000
"""An order of more than this is refused tomorrow."""

TOO_LARGE = "too_large"


def place(order: Order, asked: OrderSubmitted, meta: Meta) -> list[OrderPlaced | OrderCancelRequested | OrderCancelled]:
    """Refuse large orders at once."""
    if sum(line.quantity * line.unit_price_cents for line in asked.lines) > LARGE_CENTS:
        return [OrderCancelled(order_id=asked.order_id, reason=TOO_LARGE, refunded_cents=0, currency=asked.currency)]
    return [*place_today(order, asked, meta)]


cautious = rewritten(shop, orders, place)


SOON = timedelta(milliseconds=40)
"""How long an order may stay open in a hurry."""

hasty = rewritten(shop, orders)
_hasty_orders = hasty.decider("order")
_hasty_orders.deadlines = {}


@_hasty_orders.deadline
def overdue_at(order: Order) -> datetime | None:
    """Return when an order becomes overdue, much sooner than today."""
    at = overdue_today.due_at(order)
    return None if at is None else at - LONGEST + SOON


overdue_at.passed(give_up)


def plenty(event: Event) -> Iterable[Event]:
    """Return deliveries of a thousand times as much."""
    if not isinstance(event, DeliverySubmitted):
        return [event]
    lines = tuple(line.model_copy(update={"quantity": line.quantity * 1_000}) for line in event.lines)
    return [event.model_copy(update={"lines": lines})]


def elsewhere(event: Event) -> Iterable[Event]:
    """Return orders from another country."""
    return [event.model_copy(update={"country": "Spain"}) if isinstance(event, OrderSubmitted) else event]


class Gateway:
    """A gateway that declines by the order's number."""

    async def charge(self, _key: str, order_id: str, _amount_cents: int, _currency: str) -> Charged | Declined:
        return Declined("declined") if declines(order_id) else Charged()


class Carrier:
    """A carrier that takes every parcel."""

    async def book(self, key: str, _order_id: str, _country: str) -> Booked:
        return Booked(f"P-{key[:8]}")


class Generous(Gateway):
    """A gateway that declines nothing."""

    async def charge(self, _key: str, _order_id: str, _amount_cents: int, _currency: str) -> Charged | Declined:
        return Charged()


def declines(order_id: str) -> bool:
    """Return whether the gateway declines an order that it was never asked about."""
    return sum(order_id.encode()) % 3 == 0


def model(_choose: Choices) -> Mapping[str, object]:
    """Answer what was never asked, and decline some of it."""
    return {"gateway": Gateway(), "carrier": Carrier()}


def generous(_choose: Choices) -> Mapping[str, object]:
    """Answer what was never asked, and decline nothing."""
    return {"gateway": Generous(), "carrier": Carrier()}


class Fickle(Gateway):
    """A gateway that declines by chance."""

    def __init__(self, choose: Choices) -> None:
        self._choose = choose

    async def charge(self, _key: str, _order_id: str, _amount_cents: int, _currency: str) -> Charged | Declined:
        return Declined("declined") if self._choose.whether("the card is declined", 40) else Charged()


def by_chance(choose: Choices) -> Mapping[str, object]:
    """Answer what was never asked, by chance."""
    return {"gateway": Fickle(choose), "carrier": Carrier()}


def nobody(_choose: Choices) -> Mapping[str, object]:
    """Leave out the gateway."""
    return {"carrier": Carrier()}
