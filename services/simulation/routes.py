"""The calls that the simulated gateway and carrier take over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel

from eventlib.http import StrictRoute
from eventlib.identity import Role, allow
from services.dispatch.http_carrier import CalledBack, OnItsWay, ToBeFetched
from services.dispatch.http_carrier import Refused as NotBrought
from services.dispatch.ports import Booked, Planned, Recalled, Undeliverable
from services.fields import GatewayKey
from services.payment.http_gateway import Pending, Refused, Returned, Taken, Undone
from services.payment.ports import Accepted, Declined
from services.simulation.simulators import Simulators
from services.simulation.wire import Charge, Parcel, Problem, Recall, Refund, Void

Key = Annotated[GatewayKey, Header(alias="Idempotency-Key")]

_PROBLEMS: dict[int | str, dict[str, object]] = {
    422: {"model": Problem, "description": "Malformed, or the key was used for something else"},
    429: {"description": "A fault: not now, nothing was done"},
    503: {"description": "A fault, or a ledger that cannot be written: nothing was done"},
}


def _accepted(model: type[BaseModel]) -> dict[int | str, dict[str, object]]:
    return {202: {"model": model, "description": "A callback reports its end"}}


def gateway_routes(simulators: Simulators) -> APIRouter:
    """Return what the gateway can be asked."""
    router = APIRouter(responses=_PROBLEMS, route_class=StrictRoute)

    @router.post("/charges", response_model=Taken | Refused, responses=_accepted(Pending))
    @allow(Role.SHOP)
    async def charge(request: Request, key: Key, body: Charge) -> Response:
        """Charge an amount, accept to, or decline."""

        async def act() -> Taken | Pending | Refused:
            answer = await simulators.gateway.charge(key, body.order_id, body.amount_cents, body.currency)
            if isinstance(answer, Declined):
                return Refused(outcome="declined", reason=answer.reason)
            return Pending(outcome="accepted") if isinstance(answer, Accepted) else Taken(outcome="taken")

        return await simulators.answer(request, key, act)

    @router.post("/voids", response_model=Undone)
    @allow(Role.SHOP)
    async def void(request: Request, key: Key, body: Void) -> Response:
        """Undo a charge, whether it was made or not; a later one is declined."""

        async def act() -> Undone:
            answer = await simulators.gateway.void(body.charge_key)
            return Undone(outcome="voided", returned_cents=answer.returned_cents)

        return await simulators.answer(request, key, act)

    @router.post("/refunds", response_model=Returned)
    @allow(Role.SHOP)
    async def refund(request: Request, key: Key, body: Refund) -> Response:
        """Refund part or all of a charge."""

        async def act() -> Returned:
            await simulators.gateway.refund(key, body.charge_key, body.amount_cents, body.currency)
            return Returned(outcome="refunded")

        return await simulators.answer(request, key, act)

    return router


def carrier_routes(simulators: Simulators) -> APIRouter:
    """Return what the carrier can be asked."""
    router = APIRouter(responses=_PROBLEMS, route_class=StrictRoute)

    @router.post("/parcels", response_model=OnItsWay | NotBrought, responses=_accepted(ToBeFetched))
    @allow(Role.SHOP)
    async def book(request: Request, key: Key, body: Parcel) -> Response:
        """Fetch a parcel, agree to fetch it later, or refuse."""

        async def act() -> OnItsWay | ToBeFetched | NotBrought:
            match await simulators.carrier.book(key, body.order_id, body.country):
                case Booked(tracking=tracking):
                    return OnItsWay(outcome="booked", tracking=tracking)
                case Planned():
                    return ToBeFetched(outcome="accepted")
                case Undeliverable(reason=reason):
                    return NotBrought(outcome="undeliverable", reason=reason)

        return await simulators.answer(request, key, act)

    @router.post("/recalls", response_model=OnItsWay | CalledBack)
    @allow(Role.SHOP)
    async def recall(request: Request, key: Key, body: Recall) -> Response:
        """Cancel a booking, whether it was made or not."""

        async def act() -> OnItsWay | CalledBack:
            match await simulators.carrier.recall(body.parcel_key):
                case Booked(tracking=tracking):
                    return OnItsWay(outcome="booked", tracking=tracking)
                case Recalled():
                    return CalledBack(outcome="recalled")

        return await simulators.answer(request, key, act)

    return router
