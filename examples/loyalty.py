"""Loyalty: a point for each whole unit of money of every order that was completed."""

from dataclasses import dataclass

from eventlib import Decider, Event, Service
from services import shop
from services.order.events import OrderCancelled, OrderCompleted, OrderPlaced


class PointsEarned(Event, topic="points", key="customer_id"):  # an order's points, under its customer's key
    customer_id: str
    order_id: str
    points: int


@dataclass(frozen=True)
class Purchase:
    customer_id: str = ""  # empty for a guest


@dataclass(frozen=True)
class Account:
    points: int = 0


purchases = Decider("purchase", state=Purchase, key="order_id")
accounts = Decider("account", state=Account, key="customer_id")


@purchases.evolve
def remember(purchase: Purchase, event: Event) -> Purchase | None:
    match event:
        case OrderPlaced(customer_id=customer_id):
            return Purchase(customer_id or "")
        case PointsEarned() | OrderCancelled():
            return None  # no more events follow for this order
        case _:
            return purchase


purchases.follows(OrderPlaced, OrderCancelled)


@purchases.on
def earn(purchase: Purchase, order: OrderCompleted) -> list[PointsEarned]:
    customer_id, points = purchase.customer_id, order.amount_cents // 100
    return [PointsEarned(customer_id=customer_id, order_id=order.order_id, points=points)] if customer_id else []


@accounts.evolve
def add(account: Account, event: Event) -> Account:
    return Account(account.points + event.points) if isinstance(event, PointsEarned) else account


accounts.follows(PointsEarned)


app = shop.extended("shop-with-loyalty", Service("loyalty", deciders=[purchases, accounts]))
