"""The calls that the simulated gateway and carrier take over HTTP."""

from collections.abc import Mapping
from dataclasses import fields
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Header, Request, Response
from pydantic import BaseModel, create_model

from eventlib.http import StrictRoute
from eventlib.identity import Role, allow
from services.dispatch.http_carrier import BOOK, RECALL
from services.fields import AmountCents, Country, Currency, GatewayKey, OrderId
from services.payment.http_gateway import CHARGE, REFUND, VOID
from services.simulation.simulators import LATER, Simulators

Key = Annotated[GatewayKey, Header(alias="Idempotency-Key")]
_FIELD = Body(embed=True)


class Problem(BaseModel):
    """Why a call was refused."""

    detail: str


_PROBLEMS: dict[int | str, dict[str, object]] = {
    422: {"model": Problem, "description": "Malformed, or the key was used for something else"},
    429: {"description": "A fault: not now, nothing was done"},
    503: {"description": "A fault, or a ledger that cannot be written: nothing was done"},
}


def _answers(answers: Mapping[str, type[Any]]) -> dict[str, Any]:
    """Return what is documented of a call: its answers at once (200), and one that a callback follows (202)."""
    at_once, responses = list[Any](), dict[int, dict[str, Any]]()
    for outcome, kind in answers.items():
        named: dict[str, Any] = {"outcome": (Literal[outcome], ...)} | {
            each.name: (each.type, ...) for each in fields(kind)
        }
        model = create_model(kind.__name__, __doc__=kind.__doc__, **named)
        if issubclass(kind, LATER):
            responses[202] = {"model": model, "description": "A callback reports its end"}
        else:
            at_once.append(model)
    return {"response_model": reduce(or_, at_once), "responses": responses}


def gateway_routes(simulators: Simulators) -> APIRouter:
    """Return what the gateway can be asked."""
    router = APIRouter(responses=_PROBLEMS, route_class=StrictRoute)

    @router.post("/charges", **_answers(CHARGE))
    @allow(Role.SHOP)
    async def charge(
        request: Request,
        key: Key,
        order_id: Annotated[OrderId, _FIELD],
        amount_cents: Annotated[AmountCents, _FIELD],
        currency: Annotated[Currency, _FIELD],
    ) -> Response:
        """Charge an amount, accept to, or decline."""
        return await simulators.answer(
            request, key, lambda: simulators.gateway.charge(key, order_id, amount_cents, currency)
        )

    @router.post("/voids", **_answers(VOID))
    @allow(Role.SHOP)
    async def void(request: Request, key: Key, charge_key: Annotated[GatewayKey, _FIELD]) -> Response:
        """Undo a charge, whether it was made or not; a later one is declined."""
        return await simulators.answer(request, key, lambda: simulators.gateway.void(charge_key))

    @router.post("/refunds", **_answers(REFUND))
    @allow(Role.SHOP)
    async def refund(
        request: Request,
        key: Key,
        charge_key: Annotated[GatewayKey, _FIELD],
        amount_cents: Annotated[AmountCents, _FIELD],
        currency: Annotated[Currency, _FIELD],
    ) -> Response:
        """Refund part or all of a charge."""
        return await simulators.answer(
            request, key, lambda: simulators.gateway.refund(key, charge_key, amount_cents, currency)
        )

    return router


def carrier_routes(simulators: Simulators) -> APIRouter:
    """Return what the carrier can be asked."""
    router = APIRouter(responses=_PROBLEMS, route_class=StrictRoute)

    @router.post("/parcels", **_answers(BOOK))
    @allow(Role.SHOP)
    async def book(
        request: Request, key: Key, order_id: Annotated[OrderId, _FIELD], country: Annotated[Country, _FIELD]
    ) -> Response:
        """Fetch a parcel, agree to fetch it later, or refuse."""
        return await simulators.answer(request, key, lambda: simulators.carrier.book(key, order_id, country))

    @router.post("/recalls", **_answers(RECALL))
    @allow(Role.SHOP)
    async def recall(request: Request, key: Key, parcel_key: Annotated[GatewayKey, _FIELD]) -> Response:
        """Cancel a booking, whether it was made or not."""
        return await simulators.answer(request, key, lambda: simulators.carrier.recall(parcel_key))

    return router
