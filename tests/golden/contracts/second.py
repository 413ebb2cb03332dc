"""The post, as its second version told it: more is said, in other words, and older code reads it still."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from eventlib import Choreography, Decider, Event, Service
from eventlib.model.evolution import Aliases, unknown_is
from eventlib.model.states import replace


@unknown_is("SLOW")
class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"
    TODAY = "today"  # new


class ParcelHandedIn(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    to: str  # "name, city"
    weight: float  # grams; was an int
    speed: Speed
    insured: bool = False  # new


class ParcelAccepted(Event, topic="parcels", key="parcel_id"):
    parcel_id: str
    price: float  # euros
    currency: str = "EUR"  # new


class ParcelDelivered(Event, topic="parcels", key="parcel_id", final=True):
    parcel_id: str
    signed_by: Annotated[str | None, Aliases("signed")] = None  # was `signed`, and required


class DeliveryTold(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    signed: str


@dataclass(frozen=True)
class Parcel:
    to: str = ""
    weight: float = 0  # grams
    price: float = 0.0  # euros
    signed_by: Annotated[str | None, Aliases("signed")] = None
    insured: bool = False


parcels = Decider("parcel", state=Parcel, key="parcel_id")


@parcels.evolve
def evolve(parcel: Parcel, event: Event) -> Parcel:
    match event:
        case ParcelHandedIn(to=to, weight=weight, insured=insured):
            return replace(parcel, to=to, weight=weight, insured=insured)
        case ParcelAccepted(price=price):
            return replace(parcel, price=price)
        case ParcelDelivered(signed_by=signed_by):
            return replace(parcel, signed_by=signed_by)
        case _:
            return parcel


@parcels.on(ParcelHandedIn)
def accept(_: Parcel, handed_in: ParcelHandedIn) -> list[ParcelAccepted]:
    dear = 1 if handed_in.speed is Speed.SLOW else 2
    return [ParcelAccepted(parcel_id=handed_in.parcel_id, price=dear * handed_in.weight / 100)]


@parcels.on(DeliveryTold)
def deliver(_: Parcel, told: DeliveryTold) -> list[ParcelDelivered]:
    return [ParcelDelivered(parcel_id=told.parcel_id, signed_by=told.signed)]


post = Choreography("post", [Service("post", deciders=[parcels])])


def story() -> list[Event]:
    return [
        ParcelHandedIn(parcel_id="1", to="Ada, London", weight=450, speed=Speed.SLOW),
        ParcelHandedIn(parcel_id="2", to="Grace, New York", weight=1200, speed=Speed.FAST),
        DeliveryTold(parcel_id="1", signed="A. L."),
    ]
