"""Thing's effects: calls of the bank, and the events that they answer with."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx
from eventlib import FOREVER, Meta
from eventlib.http import http_client

from .decider import orders
from .events import (
    ChargeRequested,
    OrderCharged,
    OrderDeclined,
    OrderRefunded,
    RefundRequested,
)

BANK_URL = "http://127.0.0.1:8600/"


@orders.effect(ChargeRequested)
async def charge(
    request: ChargeRequested,
    bank: httpx.AsyncClient,
    meta: Meta,
) -> OrderCharged | OrderDeclined:
    """Charge the amount under the request's id; a refusal is an answer, and everything else is retried, or parked."""
    answer = await bank.post("charges", json={"amount_cents": request.amount_cents}, headers=_once(meta))
    if answer.status_code == httpx.codes.PAYMENT_REQUIRED:
        return OrderDeclined(order_id=request.order_id)
    answer.raise_for_status()
    return OrderCharged(order_id=request.order_id, charge_key=meta.id)


@orders.effect(RefundRequested, retry=FOREVER)
async def refund(request: RefundRequested, bank: httpx.AsyncClient, meta: Meta) -> OrderRefunded:
    """Return the money; a compensation does not give up."""
    answer = await bank.post("refunds", json={"charge_key": request.charge_key}, headers=_once(meta))
    answer.raise_for_status()
    return OrderRefunded(order_id=request.order_id)


@asynccontextmanager
async def open_bank(_log_url: str) -> AsyncIterator[Mapping[str, object]]:
    """Open the port `bank` for as long as the service runs."""
    async with http_client(base_url=os.environ.get("BANK_URL", BANK_URL), timeout=5) as bank:
        yield {"bank": bank}


def _once(meta: Meta) -> dict[str, str]:
    return {"Idempotency-Key": meta.id}
