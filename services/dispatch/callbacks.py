"""The carrier's callbacks: what it reports of parcels that it had agreed to fetch, signed as Standard Webhooks say."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, TypeAdapter

from eventlib import EventLog
from eventlib.http import Metrics
from eventlib.webhooks import SecretsFile, SigningSecret, callback_route
from services.dispatch.events import ParcelCollected, ParcelRefused
from services.fields import Tracking

PATH = "/callbacks/carrier"


class Collected(BaseModel):
    """The parcel was fetched, and is on its way."""

    type: Literal["parcel.collected"]
    order_id: str
    booking_key: str
    tracking: Tracking


class NotCollected(BaseModel):
    """The carrier did not fetch the parcel, and will not."""

    type: Literal["parcel.refused"]
    order_id: str
    booking_key: str
    reason: str


Report = Collected | NotCollected
_REPORT: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="type")])


def reported(body: bytes) -> ParcelCollected | ParcelRefused:
    """Return the event that a callback of the carrier is about."""
    match _REPORT.validate_json(body):
        case Collected(order_id=order_id, booking_key=key, tracking=tracking):
            return ParcelCollected(order_id=order_id, booking_key=key, tracking=tracking)
        case NotCollected(order_id=order_id, booking_key=key, reason=reason):
            return ParcelRefused(order_id=order_id, booking_key=key, reason=reason)


def carrier_callbacks(log: EventLog, secrets: Sequence[SigningSecret] | SecretsFile, metrics: Metrics) -> APIRouter:
    """Return the route of the carrier's callbacks; `secrets` are the newest first."""
    return callback_route(log, PATH, reported, secrets=secrets, metrics=metrics)
