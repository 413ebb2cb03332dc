"""An application of which two versions run on one log: orders, their charges, reminders, and a counter of each customer."""

import os
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Never

from eventlib import Choreography, Decider, Event, Meta, Service, Topic

PLACEMENTS, CHARGES = (Topic(name, partitions=2) for name in ("placements", "charges"))


class Placed(Event, topic=PLACEMENTS, key="order_id", request=True):
    """A customer wants something."""

    order_id: str
    cents: int


class ChargeAsked(Event, topic=CHARGES, key="order_id"):
    """Money is to be taken."""

    order_id: str
    cents: int


class Charged(Event, topic=CHARGES, key="order_id", final=True):
    """Money was taken."""

    order_id: str


class Reminded(Event, topic="reminders", key="order_id"):
    """A customer was reminded."""

    order_id: str


@dataclass(frozen=True)
class Order:
    """What an order has come to."""

    placed: int = 0
    cents: int = 0
    charged: bool = False
    remind_at: datetime | None = None


orders = Decider("order", state=Order, key="order_id")


@orders.evolve
def evolve(order: Order, event: Event, meta: Meta) -> Order:
    match event:
        case Placed(cents=cents):
            remind_at = meta.recorded_at + timedelta(seconds=0.5)
            return replace(order, placed=order.placed + 1, cents=cents, remind_at=remind_at)
        case Charged():
            return replace(order, charged=True)
        case _:
            return order


@orders.on(Placed)
def place(order: Order, placed: Placed) -> list[ChargeAsked]:
    if placed.cents == 13:
        raise ValueError("bad luck")
    return [ChargeAsked(order_id=placed.order_id, cents=order.cents)]


@orders.on(Charged)
def charged(_order: Order, _charged: Charged) -> list[Never]:
    return []


@orders.deadline
def remind_at(order: Order) -> datetime | None:
    return order.remind_at


@remind_at.passed
def remind(_order: Order, meta: Meta) -> list[Reminded]:
    return [Reminded(order_id=meta.subject)]


@orders.effect(ChargeAsked)
def charge(asked: ChargeAsked) -> Charged:
    with Path(os.environ["CHARGES"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{os.getpid()} {asked.order_id}\n")
    return Charged(order_id=asked.order_id)


app = Choreography("shadowed", [Service("orders", deciders=[orders])])
