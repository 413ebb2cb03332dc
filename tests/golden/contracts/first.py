"""The post, as its first version told it."""

from dataclasses import dataclass
from enum import StrEnum

from eventlib import Choreography, Decider, Event, Service
from eventlib.model.states import replace


class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class ParcelHandedIn(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    to: str  # "name, city"
    weight: int  # grams
    speed: Speed


class ParcelAccepted(Event, topic="parcels", key="parcel_id"):
    parcel_id: str
    price: float  # euros


class ParcelDelivered(Event, topic="parcels", key="parcel_id", final=True):
    parcel_id: str
    signed: str


class DeliveryTold(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    signed: str


@dataclass(frozen=True)
class Parcel:
    to: str = ""
    weight: int = 0  # grams
    price: float = 0.0  # euros
    signed: str | None = None


parcels = Decider("parcel", state=Parcel, key="parcel_id")


@parcels.evolve
def evolve(parcel: Parcel, event: Event) -> Parcel:
    match event:
        case ParcelHandedIn(to=to, weight=weight):
            return replace(parcel, to=to, weight=weight)
        case ParcelAccepted(price=price):
            return replace(parcel, price=price)
        case ParcelDelivered(signed=signed):
            return replace(parcel, signed=signed)
        case _:
            return parcel


@parcels.on(ParcelHandedIn)
def accept(_: Parcel, handed_in: ParcelHandedIn) -> list[ParcelAccepted]:
    dear = 2 if handed_in.speed is Speed.FAST else 1
    return [ParcelAccepted(parcel_id=handed_in.parcel_id, price=dear * handed_in.weight / 100)]


@parcels.on(DeliveryTold)
def deliver(_: Parcel, told: DeliveryTold) -> list[ParcelDelivered]:
    return [ParcelDelivered(parcel_id=told.parcel_id, signed=told.signed)]


post = Choreography("post", [Service("post", deciders=[parcels])])


def story() -> list[Event]:
    return [
        ParcelHandedIn(parcel_id="1", to="Ada, London", weight=450, speed=Speed.SLOW),
        ParcelHandedIn(parcel_id="2", to="Grace, New York", weight=1200, speed=Speed.FAST),
        DeliveryTold(parcel_id="1", signed="A. L."),
    ]
