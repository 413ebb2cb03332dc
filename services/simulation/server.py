"""The simulated gateway and carrier as a server: real sockets, real timeouts, and one durable ledger.

A call without an answer hangs until the client closes the connection, or after `hang_s`; one whose answer is lost is
executed, then its connection is cut. The ledger is on disk before an answer is sent, so that a killed server resumes
where it was.
"""

import socket
import sys

import uvicorn
from fastapi import FastAPI, HTTPException

from eventlib.http import HttpLimits, StrictRoute, serve_docs, server_options
from eventlib.identity import Identity, Role, allow, guard, identity_of, public
from services.settings import ShopSettings
from services.simulation.faults import AllFaults
from services.simulation.ledger import open_ledger
from services.simulation.routes import carrier_routes, gateway_routes
from services.simulation.simulators import Line, Simulators


def make_app(simulators: Simulators, identity: Identity | None = None) -> FastAPI:
    """Return the server's application; `identity` is by default that of the settings."""
    app = FastAPI(
        title="Gateway and carrier",
        description="A simulated payment gateway and parcel carrier. Every call needs an Idempotency-Key: repeated under "
        "its key it acts once, and gets the same answer. A refusal is an answer (200).",
        version="1",
        lifespan=simulators.reporting.lifespan,
        docs_url=None,
        redoc_url=None,
    )
    serve_docs(app)
    app.router.route_class = StrictRoute
    guard(app, identity or identity_of())
    app.include_router(gateway_routes(simulators), prefix="/gateway", tags=["gateway"])
    app.include_router(carrier_routes(simulators), prefix="/carrier", tags=["carrier"])

    @app.get("/faults", tags=["faults"], response_model=AllFaults)
    @allow(Role.OPERATOR)
    async def faults() -> AllFaults:
        """Return the current faults."""
        return simulators.faults

    @app.put("/faults", tags=["faults"], response_model=AllFaults)
    @allow(Role.OPERATOR)
    async def set_faults(wanted: AllFaults) -> AllFaults:
        """Replace the faults. What is only accepted needs an address to report to (422)."""
        if wanted.gateway.later and simulators.reporting.charges is None:
            raise HTTPException(422, "gateway.later: start this server with SHOP_CALLBACK_URL, where it reports")
        if wanted.carrier.later and simulators.reporting.parcels is None:
            raise HTTPException(
                422, "carrier.later: start this server with SHOP_CARRIER_CALLBACK_URL, where it reports"
            )
        simulators.set_faults(wanted)
        return simulators.faults

    @app.get("/healthz", tags=["health"])
    @public
    async def healthz() -> dict[str, str]:
        """Answer that the server runs."""
        return {"status": "ok"}

    return app


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
