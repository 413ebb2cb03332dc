"""Parcels after the shop's orders have ended: delivered, lost, or not heard of for two weeks. What is gone is credited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, TypeAdapter

from eventlib import Decider, Event, EventLog, Meta, Service, replace
from eventlib.invariants import Fold, invariant
from eventlib.simulation import Choices
from eventlib.webhooks import SigningSecret, callback_route
from services import shop
from services.dispatch.ports import Booked, Planned, Undeliverable
from services.order.events import OrderCompleted
from services.simulation.scenario import HonestCarrier, HonestGateway, ShopScenario

AGAIN = timedelta(days=3)
"""For how long the carrier repeats a callback that was not answered."""


class ParcelDelivered(Event, topic="parcel.reports", key="order_id", request=True, once_for=AGAIN):
    order_id: str


class ParcelLost(Event, topic="parcel.reports", key="order_id", request=True, once_for=AGAIN):
    order_id: str


class CreditGranted(Event, topic="parcels", key="order_id", final=True):
    """The customer may spend again what the order has cost; the order itself stays completed."""

    order_id: str
    amount_cents: int
    currency: str
    reason: Literal["lost", "missing"]


@dataclass(frozen=True)
class Parcel:
    """What is known of a parcel: since when, what its order has cost once that is completed, and the carrier's first report."""

    since: datetime | None = None
    amount_cents: int = 0
    currency: str = ""
    report: Literal["", "delivered", "lost"] = ""
    is_credited: bool = False


parcels = Decider("parcel", state=Parcel, key="order_id")


@parcels.evolve
def follow(parcel: Parcel, event: Event, meta: Meta) -> Parcel:
    parcel = replace(parcel, since=parcel.since or meta.recorded_at)
    match event:
        case OrderCompleted(amount_cents=cents, currency=currency):
            return replace(parcel, amount_cents=cents, currency=currency)
        case ParcelDelivered():
            return replace(parcel, report=parcel.report or "delivered")
        case ParcelLost():
            return replace(parcel, report=parcel.report or "lost")
        case CreditGranted():
            return replace(parcel, is_credited=True)
        case _:
            return parcel


@parcels.on
def lost(parcel: Parcel, news: OrderCompleted | ParcelLost) -> list[CreditGranted]:
    """Credit what is lost; the carrier's report may be there before the order's end is read."""
    return _credit(parcel, news.order_id, "lost") if parcel.report == "lost" else []


parcels.follows(ParcelDelivered)


@parcels.deadline
def missing_at(parcel: Parcel) -> datetime | None:
    waits = parcel.currency and not parcel.report and not parcel.is_credited
    return parcel.since + timedelta(days=14) if parcel.since and waits else None


@missing_at.passed
def give_up(parcel: Parcel, meta: Meta) -> list[CreditGranted]:
    return _credit(parcel, meta.subject, "missing")


@parcels.forget
def forgotten_at(parcel: Parcel) -> datetime | None:
    return parcel.since + timedelta(days=60) if parcel.since else None


def _credit(parcel: Parcel, order_id: str, reason: Literal["lost", "missing"]) -> list[CreditGranted]:
    if parcel.is_credited or not parcel.currency:
        return []
    return [CreditGranted(order_id=order_id, amount_cents=parcel.amount_cents, currency=parcel.currency, reason=reason)]


class Report(BaseModel):
    """What the carrier sends."""

    type: Literal["parcel.delivered", "parcel.lost"]
    order_id: Annotated[str, Field(min_length=1, max_length=200)]


_REPORT = TypeAdapter(Report)


def reported(body: bytes) -> ParcelDelivered | ParcelLost:
    report = _REPORT.validate_json(body)
    kind = ParcelDelivered if report.type == "parcel.delivered" else ParcelLost
    return kind(order_id=report.order_id)


def callbacks(log: EventLog, secrets: Sequence[SigningSecret]) -> APIRouter:
    return callback_route(log, "/callbacks/parcels", reported, secrets=secrets)


@dataclass(frozen=True)
class Books:
    """What a customer has of an order, by its events."""

    completed_cents: int = 0
    credited_cents: int = 0


books = Fold("parcel_books", state=Books, key="order_id")


@books.evolve
def count(known: Books, event: Event) -> Books:
    match event:
        case OrderCompleted(amount_cents=cents):
            return replace(known, completed_cents=cents)
        case CreditGranted(amount_cents=cents):
            return replace(known, credited_cents=known.credited_cents + cents)
        case _:
            return known


@invariant(books)
def nobody_is_credited_more_than_the_order_has_cost(known: Books) -> bool:
    """Credit an order at most once, and only one that is completed."""
    return known.credited_cents in {0, known.completed_cents}


app = shop.extended(
    "shop-with-parcels",
    Service("parcels", deciders=[parcels]),
    invariants=[nobody_is_credited_more_than_the_order_has_cost],
)


class ReportingCarrier(HonestCarrier):
    """A carrier whose parcels leave at once; some are lost. `reports` are its callbacks, by their ids."""

    def __init__(self, choose: Choices) -> None:
        super().__init__(choose)
        self.reports: dict[str, Event] = {}

    async def book(self, key: str, order_id: str, country: str) -> Booked | Planned | Undeliverable:
        """Fetch a parcel, or refuse."""
        answer = await super().book(key, order_id, country)
        if isinstance(answer, Booked) and key not in self.left:
            self.left.add(key)
            is_lost = self._choose.whether("the parcel is lost", 30)
            self.reports[key] = (ParcelLost if is_lost else ParcelDelivered)(order_id=order_id)
        return answer


class ParcelScenario(ShopScenario):
    """The shop's orders, and what becomes of their parcels."""

    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the gateway and the carrier."""
        return {"gateway": HonestGateway(choose), "carrier": ReportingCarrier(choose)}

    def callbacks(self, ports: Mapping[str, object]) -> Mapping[str, Event]:
        """Return what the carrier reports."""
        carrier = ports["carrier"]
        assert isinstance(carrier, ReportingCarrier)  # noqa: S101  see `ports`
        return carrier.reports
