"""The simulated gateway and carrier as a server: real sockets, real timeouts, and one durable ledger.

A call without an answer hangs until the client closes the connection, or after `hang_s`; one whose answer is lost is
executed, then its connection is cut. The ledger is on disk before an answer is sent, so that a killed server resumes
where it was.
"""

import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated

import uvicorn
from fastapi import APIRouter, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from eventlib.http import HttpLimits, StrictRoute, serve_docs, server_options
from eventlib.identity import Identity, Role, allow, guard, identity_of, public
from services.dispatch.http_carrier import CalledBack, OnItsWay
from services.dispatch.http_carrier import Refused as NotBrought
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.fields import GatewayKey
from services.payment.http_gateway import Refused, Returned, Taken, Undone
from services.payment.ports import Declined
from services.settings import ShopSettings
from services.simulation.carrier import SimulatedCarrier
from services.simulation.faults import AnswerLost, Chance, NeverArrived
from services.simulation.gateway import SimulatedGateway
from services.simulation.ledger import Ledger, LedgerConflict, open_ledger
from services.simulation.lines import Line
from services.simulation.wire import AllFaults, Charge, HttpFaults, Parcel, Problem, Recall, Refund, Void

Key = Annotated[GatewayKey, Header(alias="Idempotency-Key")]

_PROBLEMS: dict[int | str, dict[str, object]] = {
    422: {"model": Problem, "description": "Malformed, or the key was used for something else"},
    429: {"description": "A fault: not now, nothing was done"},
    503: {"description": "A fault, or a ledger that cannot be written: nothing was done"},
}


class Simulators:
    """Both systems on one ledger; their faults can be changed while they run."""

    def __init__(self, ledger: Ledger, settings: ShopSettings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._chance = Chance(settings.seed, "http")
        self._attempts = Counter[str]()
        self.set_faults(AllFaults(gateway=settings.gateway_faults, carrier=settings.carrier_faults, http=HttpFaults()))

    def set_faults(self, faults: AllFaults) -> None:
        """Replace the faults."""
        self.faults = faults
        self.gateway = SimulatedGateway(self._ledger, faults.gateway, seed=self._settings.seed)
        self.carrier = SimulatedCarrier(self._ledger, faults.carrier, seed=self._settings.seed)

    async def answer(  # noqa: PLR0911  one return for each fault
        self, request: Request, key: str, act: Callable[[], Awaitable[BaseModel]]
    ) -> Response:
        """Execute one call, and send its answer as the faults allow."""
        line, call = Line.of(request), f"{request.url.path} {key}"
        self._attempts[call] += 1
        if self.faults.http.down:
            return _cut(line)
        if self._hits("error", call):
            return Response(status_code=503)
        if self._hits("throttle", call):
            return Response(status_code=429, headers={"Retry-After": "1"})
        try:
            return await self._sent(await act(), line, call)
        except LedgerConflict as conflict:
            return JSONResponse({"detail": str(conflict)}, status_code=422)
        except sqlite3.Error:  # the ledger's disk is full or broken: what was not written was not done
            return Response(status_code=503, headers={"Retry-After": "1"})
        except AnswerLost:
            return _cut(line)
        except NeverArrived:
            await self._hang(line)
            return _cut(line)

    async def _sent(self, answer: BaseModel, line: Line, call: str) -> Response:
        if self._hits("late", call):
            await self._hang(line)
        if self._hits("garbage", call):
            return Response("<h1>It works!</h1>", media_type="text/html")
        return JSONResponse(answer.model_dump())

    def _hits(self, fault: str, call: str) -> bool:
        return self._chance.of(getattr(self.faults.http, fault), fault, call, self._attempts[call])

    async def _hang(self, line: Line) -> None:
        await line.hang(self.faults.http.hang_s or self._settings.hang_s)


def _cut(line: Line) -> Response:
    line.cut()
    return Response(status_code=502)  # never sent


def make_app(simulators: Simulators, identity: Identity | None = None) -> FastAPI:
    """Return the server's application; `identity` is by default that of the settings."""
    app = FastAPI(
        title="Gateway and carrier",
        description="A simulated payment gateway and parcel carrier. Every call needs an Idempotency-Key: repeated under "
        "its key it acts once, and gets the same answer. A refusal is an answer (200).",
        version="1",
        docs_url=None,
        redoc_url=None,
    )
    serve_docs(app)
    app.router.route_class = StrictRoute
    guard(app, identity or identity_of())
    app.include_router(_gateway(simulators), prefix="/gateway", tags=["gateway"])
    app.include_router(_carrier(simulators), prefix="/carrier", tags=["carrier"])

    @app.get("/faults", tags=["faults"], response_model=AllFaults)
    @allow(Role.OPERATOR)
    async def faults() -> AllFaults:
        """Return the current faults."""
        return simulators.faults

    @app.put("/faults", tags=["faults"], response_model=AllFaults)
    @allow(Role.OPERATOR)
    async def set_faults(wanted: AllFaults) -> AllFaults:
        """Replace the faults."""
        simulators.set_faults(wanted)
        return simulators.faults

    @app.get("/healthz", tags=["health"])
    @public
    async def healthz() -> dict[str, str]:
        """Answer that the server runs."""
        return {"status": "ok"}

    return app


def _gateway(simulators: Simulators) -> APIRouter:
    router = APIRouter(responses=_PROBLEMS, route_class=StrictRoute)

    @router.post("/charges", response_model=Taken | Refused)
    @allow(Role.SHOP)
    async def charge(request: Request, key: Key, body: Charge) -> Response:
        """Charge an amount, or decline."""

        async def act() -> Taken | Refused:
            answer = await simulators.gateway.charge(key, body.order_id, body.amount_cents, body.currency)
            if isinstance(answer, Declined):
                return Refused(outcome="declined", reason=answer.reason)
            return Taken(outcome="taken")

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


def _carrier(simulators: Simulators) -> APIRouter:
    router = APIRouter(responses=_PROBLEMS, route_class=StrictRoute)

    @router.post("/parcels", response_model=OnItsWay | NotBrought)
    @allow(Role.SHOP)
    async def book(request: Request, key: Key, body: Parcel) -> Response:
        """Fetch a parcel, or refuse."""

        async def act() -> OnItsWay | NotBrought:
            match await simulators.carrier.book(key, body.order_id, body.country):
                case Booked(tracking=tracking):
                    return OnItsWay(outcome="booked", tracking=tracking)
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


def serve(host: str, settings: ShopSettings, identity: Identity) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises: OSError when the port is taken; WiringError when others reach the address, and no identity is configured.
    """
    identity.refuse_open(host, f"--host {host}")
    with (
        socket.create_server((host, settings.simulators_port), backlog=1_024) as listening,
        open_ledger(settings.simulators_ledger) as ledger,
    ):
        port = listening.getsockname()[1]
        sys.stderr.write(f"Gateway and carrier on http://{host}:{port} (/docs), ledger {settings.simulators_ledger}\n")
        sys.stderr.flush()
        app = make_app(Simulators(ledger, settings), identity)
        options = server_options(HttpLimits(), Line)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, **options)
        uvicorn.Server(config).run(sockets=[listening])
