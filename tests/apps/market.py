"""A small market whose code can change.

A basket asks a shelf for each of its lines; when all are kept it is charged, when one is short the others are given
back. Shelves and baskets have different keys, so that a task hears what others have said.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Never

from eventlib import Choreography, Decider, Event, Meta, OutcomeUnknown, Retry, Service


class BasketSent(Event, topic="requests", key="basket", request=True):
    basket: str
    lines: tuple[str, ...]


class Stocked(Event, topic="stock", key="sku"):
    sku: str
    units: int


class Asked(Event, topic="stock", key="sku"):
    sku: str
    basket: str


class GivenBack(Event, topic="stock", key="sku", final=True):
    sku: str
    basket: str


class Kept(Event, topic="answers", key="basket"):
    basket: str
    sku: str


class Short(Event, topic="answers", key="basket"):
    basket: str
    sku: str
    left: int


class ChargeAsked(Event, topic="charges", key="basket"):
    basket: str
    cents: int


class Charged(Event, topic="charges", key="basket"):
    basket: str
    cents: int


class Closed(Event, topic="closed", key="basket"):
    basket: str
    how: str


class Reminded(Event, topic="reminders", key="basket", final=True):
    basket: str


@dataclass(frozen=True)
class Basket:
    lines: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    charged_cents: int = 0
    how: str = ""
    sent_at: datetime | None = None


@dataclass(frozen=True)
class Shelf:
    left: int = 0


@dataclass(frozen=True)
class Customer:
    closed: int = 0


@dataclass(frozen=True)
class Code:
    """How the code behaves: as it should, or with a bug."""

    price_cents: int = 100
    gives_back: bool = True
    counts: bool = True
    raises_for: str = ""
    reminds_after_s: float | None = None
    spare: int = 0


def market(code: Code = Code()) -> Choreography:  # noqa: C901  a frozen default; one service, all in one place
    baskets: Decider[Basket] = Decider("basket", state=Basket, key="basket")
    shelves: Decider[Shelf] = Decider("shelf", state=Shelf, key="sku")
    customers: Decider[Customer] = Decider("customer", state=Customer, key="basket")

    @baskets.evolve
    def filled(basket: Basket, event: Event, meta: Meta) -> Basket:
        match event:
            case BasketSent(lines=lines):
                return replace(basket, lines=lines, sent_at=meta.recorded_at)
            case Kept(sku=sku):
                return replace(basket, kept=(*basket.kept, sku))
            case Short(sku=sku):
                return replace(basket, short=(*basket.short, sku))
            case Charged(cents=cents):
                return replace(basket, charged_cents=cents)
            case Closed(how=how):
                return replace(basket, how=how)
            case _:
                return basket

    @baskets.on(BasketSent)
    def ask(_basket: Basket, sent: BasketSent) -> list[Asked]:
        if sent.basket == code.raises_for:
            raise RuntimeError("a bug in the handler")
        return [Asked(sku=sku, basket=sent.basket) for sku in sent.lines]

    @baskets.on(Kept, Short)
    def join(basket: Basket, answer: Kept | Short) -> list[ChargeAsked | GivenBack | Closed]:
        if len(basket.kept) + len(basket.short) < len(basket.lines):
            return []
        if not basket.short:
            return [ChargeAsked(basket=answer.basket, cents=code.price_cents * len(basket.lines))]
        back = [GivenBack(sku=sku, basket=answer.basket) for sku in basket.kept] if code.gives_back else []
        return [*back, Closed(basket=answer.basket, how="short")]

    @baskets.on(Charged)
    def close(_basket: Basket, charged: Charged) -> list[Closed]:
        return [Closed(basket=charged.basket, how="charged")]

    @baskets.effect(ChargeAsked, retry=Retry(attempts=None, first_pause_s=0.05))
    async def charge(asked: ChargeAsked, till: "Till", meta: Meta) -> Charged:
        return Charged(basket=asked.basket, cents=await till.charge(meta.id, asked.cents))

    @baskets.deadline
    def reminded_at(basket: Basket) -> datetime | None:
        if code.reminds_after_s is None or basket.sent_at is None or basket.how:
            return None
        return basket.sent_at + timedelta(seconds=code.reminds_after_s)

    @reminded_at.passed
    def remind(_basket: Basket, meta: Meta) -> list[Reminded]:
        return [Reminded(basket=meta.subject)]

    @shelves.evolve
    def moved(shelf: Shelf, event: Event) -> Shelf:
        match event:
            case Stocked(units=units):
                return Shelf(shelf.left + units)
            case Kept() if code.counts:
                return Shelf(shelf.left - 1)
            case GivenBack():
                return Shelf(shelf.left + 1)
            case _:
                return shelf

    @shelves.on(Asked)
    def keep(shelf: Shelf, asked: Asked) -> list[Kept | Short]:
        if shelf.left > code.spare:
            return [Kept(basket=asked.basket, sku=asked.sku)]
        return [Short(basket=asked.basket, sku=asked.sku, left=shelf.left)]

    @shelves.on(Stocked, GivenBack)
    def note(_shelf: Shelf, _event: Stocked | GivenBack) -> list[Never]:
        return []

    @customers.evolve
    def counted(customer: Customer, event: Event) -> Customer:
        return Customer(customer.closed + 1) if isinstance(event, Closed) else customer

    @customers.on(Closed)
    def hear(_customer: Customer, _closed: Closed) -> list[Never]:
        return []

    store = Service("store", deciders=[baskets, shelves], effects="all")
    return Choreography("market", [store, Service("mail", deciders=[customers])], facts=[Stocked])


@dataclass
class Till:
    """The outside: it knows what it was asked, by request; while it is closed, it does not answer."""

    charges: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    is_closed: bool = False

    async def charge(self, key: str, cents: int) -> int:
        self.calls += 1
        if self.is_closed:
            raise OutcomeUnknown("nobody there")
        self.charges[key] = cents
        return cents
