"""The gateway's callbacks: what it reports of charges that it had accepted, signed as Standard Webhooks say."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, TypeAdapter

from eventlib import EventLog
from eventlib.http import Metrics
from eventlib.webhooks import SecretsFile, SigningSecret, callback_route
from services.payment.events import ChargeConfirmed, ChargeDeclined

PATH = "/callbacks/gateway"


class Confirmed(BaseModel):
    """The customer confirmed the charge, and the money was taken."""

    type: Literal["charge.confirmed"]
    order_id: str
    charge_key: str


class NotConfirmed(BaseModel):
    """The customer or the bank refused: nothing was taken, and nothing will be."""

    type: Literal["charge.declined"]
    order_id: str
    charge_key: str
    reason: str


Report = Confirmed | NotConfirmed
_REPORT: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="type")])


def reported(body: bytes) -> ChargeConfirmed | ChargeDeclined:
    """Return the event that a callback of the gateway is about."""
    match _REPORT.validate_json(body):
        case Confirmed(order_id=order_id, charge_key=charge_key):
            return ChargeConfirmed(order_id=order_id, charge_key=charge_key)
        case NotConfirmed(order_id=order_id, charge_key=charge_key, reason=reason):
            return ChargeDeclined(order_id=order_id, charge_key=charge_key, reason=reason)


def gateway_callbacks(log: EventLog, secrets: Sequence[SigningSecret] | SecretsFile, metrics: Metrics) -> APIRouter:
    """Return the route of the gateway's callbacks; `secrets` are the newest first."""
    return callback_route(log, PATH, reported, secrets=secrets, metrics=metrics)
