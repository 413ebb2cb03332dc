"""The bank over HTTP: what it is asked, and the route of its callbacks."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field, TypeAdapter

from eventlib import EventLog, OutcomeUnknown
from eventlib.http import http_client
from eventlib.webhooks import SigningSecret, callback_route
from examples.transfers.purchases import TransferConfirmed, TransferDeclined


class HttpBank:
    """The bank at an address."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def transfer(self, key: str, purchase_id: str, amount_cents: int) -> None:
        """See `Bank.transfer`."""
        await self._post("transfers", key, {"purchase_id": purchase_id, "amount_cents": amount_cents}, 202)

    async def void(self, key: str) -> None:
        """See `Bank.void`."""
        await self._post("voids", key, {"transfer_key": key}, 200)

    async def _post(self, path: str, key: str, body: Mapping[str, object], expected: int) -> None:
        async with http_client(base_url=self._url) as client:
            answer = await client.post(path, json=body, headers={"Idempotency-Key": key})
        if answer.status_code != expected:
            raise OutcomeUnknown(f"POST {path} ({key}): status {answer.status_code}")


class Confirmed(BaseModel):
    type: Literal["transfer.confirmed"]
    purchase_id: str


class Declined(BaseModel):
    type: Literal["transfer.declined"]
    purchase_id: str
    reason: str


_REPORT: TypeAdapter[Confirmed | Declined] = TypeAdapter(Annotated[Confirmed | Declined, Field(discriminator="type")])


def reported(body: bytes) -> TransferConfirmed | TransferDeclined:
    """Return the event that a callback of the bank is about."""
    match _REPORT.validate_json(body):
        case Confirmed(purchase_id=purchase_id):
            return TransferConfirmed(purchase_id=purchase_id)
        case Declined(purchase_id=purchase_id, reason=reason):
            return TransferDeclined(purchase_id=purchase_id, reason=reason)


def callbacks(log: EventLog, secrets: Sequence[SigningSecret]) -> APIRouter:
    """Return the route of the bank's callbacks; `secrets` are the newest first."""
    return callback_route(log, "/callbacks/bank", reported, secrets=secrets)


@asynccontextmanager
async def ports(_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Open the bank at TRANSFERS_BANK_URL."""
    yield {"bank": HttpBank(os.environ["TRANSFERS_BANK_URL"])}
