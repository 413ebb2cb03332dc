"""A small application for searches: parcels, with every type of searchable field, an effect, a deadline, and a bug."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Protocol

from pydantic import Field

from eventlib import Choreography, Decider, Event, Meta, SagaState, SagaStates, Service, Topic, replace
from eventlib.search import Searchable

LATE = timedelta(hours=2)
REQUESTS, PARCELS, LABELS = (Topic(name, partitions=2) for name in ("parcels.requests", "parcels", "labels"))


class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class ParcelSubmitted(Event, topic=REQUESTS, key="parcel_id", request=True):
    parcel_id: str
    country: str = "France"
    grams: int = 0
    fee: Annotated[Decimal, Field(max_digits=10, decimal_places=2)] = Decimal("1.00")
    insured: bool = False
    speed: Speed = Speed.SLOW
    wanted_on: date = date(2026, 1, 1)
    packed_at: datetime
    litres: float = 0.0
    note: str | None = None
    labels: tuple[str, ...] = ()


class ParcelTaken(Event, topic=PARCELS, key="parcel_id"):
    parcel_id: str
    country: Annotated[str, Searchable]
    grams: Annotated[int, Searchable]
    fee: Annotated[Decimal, Field(max_digits=10, decimal_places=2), Searchable]
    insured: Annotated[bool, Searchable]
    speed: Annotated[Speed, Searchable]
    wanted_on: Annotated[date, Searchable]
    packed_at: Annotated[datetime, Searchable]
    litres: Annotated[float, Searchable]
    note: Annotated[str | None, Searchable]


class LabelPut(Event, topic=LABELS, key="label"):
    parcel_id: str
    label: Annotated[str, Searchable(many=True)]


class CarryRequested(Event, topic=PARCELS, key="parcel_id"):
    parcel_id: str
    note: str | None


class ParcelDelivered(Event, topic=PARCELS, key="parcel_id", final=True):
    parcel_id: str


class ParcelLost(Event, topic=PARCELS, key="parcel_id", final=True, failure=True):
    parcel_id: str
    reason: str


class Carrier(Protocol):
    async def carry(self, parcel_id: str, note: str | None) -> str | None: ...


@dataclass(frozen=True)
class Parcel:
    taken_at: datetime | None = None
    shelf: Annotated[str, Searchable] = ""
    ended: bool = False


parcels = Decider("parcel", state=Parcel, key="parcel_id")


@parcels.evolve
def evolve(parcel: Parcel, event: Event, meta: Meta) -> Parcel:
    match event:
        case ParcelTaken():
            return replace(parcel, taken_at=meta.recorded_at, shelf=event.country[:1])
        case ParcelDelivered() | ParcelLost():
            return replace(parcel, ended=True)
        case _:
            return parcel


@parcels.on
def take(parcel: Parcel, asked: ParcelSubmitted) -> list[ParcelTaken | LabelPut | CarryRequested]:
    if asked.note == "bug":
        raise KeyError("no tariff")
    if parcel.taken_at is not None:
        return []
    fields = {name: value for name, value in asked if name != "labels"}
    labels = [LabelPut(parcel_id=asked.parcel_id, label=label) for label in asked.labels]
    return [ParcelTaken(**fields), *labels, CarryRequested(parcel_id=asked.parcel_id, note=asked.note)]


parcels.follows(ParcelDelivered, ParcelLost)


@parcels.effect(CarryRequested)
async def carry(asked: CarryRequested, carrier: Carrier) -> ParcelDelivered | ParcelLost:
    reason = await carrier.carry(asked.parcel_id, asked.note)
    if reason is None:
        return ParcelDelivered(parcel_id=asked.parcel_id)
    return ParcelLost(parcel_id=asked.parcel_id, reason=reason)


@parcels.deadline
def late_at(parcel: Parcel) -> datetime | None:
    return None if parcel.taken_at is None or parcel.ended else parcel.taken_at + LATE


@late_at.passed
def lose(_: Parcel, meta: Meta) -> list[ParcelLost]:
    return [ParcelLost(parcel_id=meta.subject, reason="late")]


def status(parcel: Parcel) -> SagaState | None:
    if parcel.taken_at is None:
        return None
    return SagaState("carried" if parcel.ended else "taken", parcel.ended, overdue_at=parcel.taken_at + LATE)


APP = Choreography("parcels", [Service("depot", deciders=[parcels])], sagas=SagaStates(parcels, status))
