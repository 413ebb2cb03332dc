"""A bank for development, over HTTP: it declines charges over its limit, and takes each once."""

from typing import Annotated

from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

LIMIT_CENTS = 100_00

Key = Annotated[str, Header(alias="Idempotency-Key")]


class Charge(BaseModel):
    """Money to take."""

    amount_cents: int


class Refund(BaseModel):
    """A charge to return."""

    charge_key: str


def make_bank() -> FastAPI:
    """Return a bank that knows its charges for as long as it runs."""
    app = FastAPI(docs_url=None, redoc_url=None)  # its pages would load from elsewhere
    charges, refunded = dict[str, int](), set[str]()

    @app.post("/charges", status_code=201)
    async def charge(wanted: Charge, key: Key) -> None:
        if wanted.amount_cents > LIMIT_CENTS:
            raise HTTPException(402)
        charges.setdefault(key, wanted.amount_cents)

    @app.post("/refunds", status_code=201)
    async def refund(wanted: Refund) -> None:
        refunded.add(wanted.charge_key)

    return app


bank = make_bank()
