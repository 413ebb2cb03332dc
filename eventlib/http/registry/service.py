"""What one instance of the server is made of, and the tasks that keep it going."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import Request, Response
from fastapi.routing import APIRoute

from eventlib.codec.registry import RegistryOptions
from eventlib.errors import EventlibError
from eventlib.ground.http_client import http_client
from eventlib.ground.startup import Startup
from eventlib.ground.tasks import cancelled
from eventlib.ground.variables import read_settings
from eventlib.http.front import READS
from eventlib.http.rate_limit import CALLER
from eventlib.http.registry.forwarding import Forwarding
from eventlib.http.registry.options import SchemasOptions
from eventlib.identity.identity import Identity, identity_of
from eventlib.identity.principal import IdentityUnavailable, Role, Unauthenticated
from eventlib.log.base import Log
from eventlib.registry.catalogue import Catalogue
from eventlib.registry.comparing import CompareLimits
from eventlib.registry.errors import LACKING, Refused, store_failed
from eventlib.registry.following import View
from eventlib.registry.records import SCHEMAS, WRITERS
from eventlib.registry.registrar import Registrar
from eventlib.registry.writing import Writer


async def admit(identity: Identity, request: Request) -> None:
    """Let principals with any role read, and operators write; an identity that is not configured lets everyone. Raises: Refused."""
    try:
        principal = await identity.principal(request.scope["headers"], request.client and request.client.host)
    except Unauthenticated as error:
        raise Refused(401, 401, f"Unauthorized: {error}") from error
    except IdentityUnavailable as error:
        raise Refused(503, 50301, str(error)) from error
    request.scope[CALLER] = principal.by
    if not principal.roles:
        raise Refused(403, 40301, f"{principal.by} has no role: reading takes any")
    if _writes(request) and not principal.has(Role.OPERATOR):
        raise Refused(403, 40301, f"{principal.by} may only read: writing takes the role operator")


def _writes(request: Request) -> bool:
    if request.method in READS:
        return False
    path = request.url.path
    asks = request.method == "POST" and (
        path.startswith("/compatibility/") or not path.rstrip("/").endswith("/versions")
    )
    return not asks


Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_PATIENCE_S = 5.0
_REPEATED = frozenset({"GET", "HEAD", "POST"})


@dataclass(frozen=True, slots=True)
class Service:
    """One instance: what it knows, and how it writes."""

    catalogue: Catalogue
    view: View
    registrar: Registrar
    forwarding: Forwarding
    identity: Identity
    failed: asyncio.Future[None]

    async def current(self) -> None:
        """Wait until the catalogue has all that is on the log now. Raises: Refused when that is unknown."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.view.catch_up()
        except (EventlibError, TimeoutError) as error:
            reason = "the log cannot be read just now, so it is not known whether there is what was asked for"
            raise store_failed(reason) from error

    @property
    def route(self) -> type[APIRoute]:
        """Routes that refuse for want of something only by a catalogue that has all that was on the log by then."""

        class Certain(APIRoute):
            def get_route_handler(route) -> Handler:  # noqa: N805  `self` is the service
                handle = super().get_route_handler()

                async def certain(request: Request) -> Response:
                    try:
                        return await handle(request)
                    except Refused as error:
                        if error.code not in LACKING or request.method not in _REPEATED:
                            raise
                    await self.current()
                    return await handle(request)

                return certain

        return Certain


@asynccontextmanager
async def open_service(
    log: Log, options: SchemasOptions, url: str, startup: Startup | None = None, limits: CompareLimits | None = None
) -> AsyncIterator[Service]:
    """Open an instance on a log; others reach it at a URL. It has read the whole topic when it is given.

    `startup` has what it waits for until it can write; without one, that is logged as warnings. `failed` of what is given ends when the instance cannot go on. Raises: UndecodableRecord; what the log raises.
    """
    await log.create_topics([SCHEMAS, WRITERS])
    view = View(log, options.compatibility)
    writer = Writer(log, view, url)
    ca = read_settings(RegistryOptions, {}, also=None).registry_ca
    verify = httpx.create_ssl_context(verify=ca) if ca else True
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    standing = writer.stand(startup or Startup())
    tasks = [asyncio.create_task(view.follow(), name="follow"), asyncio.create_task(standing, name="stand")]
    for task in tasks:
        task.add_done_callback(lambda done: _fail(failed, done))
    try:
        await view.catch_up()
        async with http_client(verify=verify, trust_env=False) as others:
            forwarding = Forwarding(view, writer, url, others, options.certificate_name)
            registrar = Registrar(view.catalogue, writer, limits)
            yield Service(view.catalogue, view, registrar, forwarding, identity_of(), failed)
    finally:
        await cancelled(*reversed(tasks))
        failed.cancel()


def _fail(failed: asyncio.Future[None], done: asyncio.Task[None]) -> None:
    if not done.cancelled() and not failed.done() and (error := done.exception()) is not None:
        failed.set_exception(error)
