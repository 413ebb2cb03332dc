"""The post, as its code of today tells it: what no schema resolves is brought over by upcasters."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from eventlib import Choreography, Decider, Event, Service
from eventlib.model.evolution import Aliases, unknown_is, upcasts
from eventlib.model.states import replace


@unknown_is("SLOW")
class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"
    TODAY = "today"


class ParcelHandedIn(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    name: str  # was in `to`
    city: str
    weight_g: float
    speed: Speed
    insured: bool = False


class ParcelAccepted(Event, topic="parcels", key="parcel_id"):
    parcel_id: str
    price_cents: int  # were euros, as a float
    currency: str = "EUR"


class ParcelDelivered(Event, topic="parcels", key="parcel_id", final=True):
    parcel_id: str
    signature: Annotated[str | None, Aliases("signed_by", "signed")] = None


class DeliveryTold(Event, topic="parcels.requests", key="parcel_id", request=True):
    parcel_id: str
    signed: str


@dataclass(frozen=True)
class Parcel:
    name: str = ""
    city: str = ""
    weight_g: float = 0
    price_cents: int = 0
    signature: str | None = None
    insured: bool = False


def addressed(fields: dict[str, Any]) -> dict[str, Any]:
    to, weight = fields.pop("to"), fields.pop("weight")
    name, _, city = to.partition(", ")
    return {**fields, "name": name, "city": city, "weight_g": weight}


def in_cents(fields: dict[str, Any]) -> dict[str, Any]:
    price = fields.pop("price")
    return {**fields, "price_cents": round(100 * price)}


@upcasts(ParcelHandedIn, version=1)
def handed_in_to_an_address(fields: dict[str, Any]) -> dict[str, Any]:
    return addressed(fields)


@upcasts(ParcelAccepted, version=1)
def accepted_for_cents(fields: dict[str, Any]) -> dict[str, Any]:
    return in_cents(fields)


@upcasts(Parcel, version=1)
def parcel_for_cents(fields: dict[str, Any]) -> dict[str, Any]:
    signature = fields.pop("signed") if "signed" in fields else fields.pop("signed_by")
    return {**addressed(in_cents(fields)), "signature": signature}


parcels = Decider("parcel", state=Parcel, key="parcel_id")


@parcels.evolve
def evolve(parcel: Parcel, event: Event) -> Parcel:
    match event:
        case ParcelHandedIn(name=name, city=city, weight_g=weight_g, insured=insured):
            return replace(parcel, name=name, city=city, weight_g=weight_g, insured=insured)
        case ParcelAccepted(price_cents=price_cents):
            return replace(parcel, price_cents=price_cents)
        case ParcelDelivered(signature=signature):
            return replace(parcel, signature=signature)
        case _:
            return parcel


@parcels.on(ParcelHandedIn)
def accept(_: Parcel, handed_in: ParcelHandedIn) -> list[ParcelAccepted]:
    dear = 1 if handed_in.speed is Speed.SLOW else 2
    return [ParcelAccepted(parcel_id=handed_in.parcel_id, price_cents=round(dear * handed_in.weight_g))]


@parcels.on(DeliveryTold)
def deliver(_: Parcel, told: DeliveryTold) -> list[ParcelDelivered]:
    return [ParcelDelivered(parcel_id=told.parcel_id, signature=told.signed)]


post = Choreography("post", [Service("post", deciders=[parcels])])


def story() -> list[Event]:
    return [
        ParcelHandedIn(parcel_id="1", name="Ada", city="London", weight_g=450, speed=Speed.SLOW),
        ParcelHandedIn(parcel_id="2", name="Grace", city="New York", weight_g=1200, speed=Speed.FAST),
        DeliveryTold(parcel_id="1", signed="A. L."),
    ]
