"""What one instance of the server is made of, and the tasks that keep it going."""

import asyncio
import base64
import binascii
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import Request, Response
from fastapi.routing import APIRoute

from eventlib.errors import EventlibError
from eventlib.ground.http_client import http_client
from eventlib.ground.startup import Startup
from eventlib.http.registry.forwarding import Forwarding
from eventlib.http.registry.options import SchemasOptions
from eventlib.identity.foreign import READS, foreign
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

# --- who may come, and what they may do. Source: RFC 7617, "Basic" authentication


class Access:
    """Lets readers read and writers write: users of the registry's own, and principals of the identity.

    Every principal with a role may read, operators may write. Without users and identity, everyone on this machine may do
    everything. Requests are refused as by every other server: for another host, from a page of another origin, and, without
    users and identity, from another machine or behind a proxy. `own_url` is where others reach this instance.
    """

    def __init__(self, options: SchemasOptions, identity: Identity, own_url: str) -> None:
        self._callers = identity
        self._identity = identity if identity.is_configured else None
        self._own_host = httpx.URL(own_url).host
        self._has_users = options.has_users
        self._readers = {name: _digest(each) for name, each in options.users("readers").items()}
        self._writers = {name: _digest(each) for name, each in options.users("writers").items()}

    def check_origin(self, request: Request) -> None:
        """Refuse another host, and a write that a page of another origin makes a browser send. Raises: Refused."""
        # Who has users and no identity is reached by any name, and asks for a password.
        own_host = request.url.hostname if self._has_users and self._identity is None else self._own_host
        if (why := foreign(request.scope, self._callers, own_host)) is not None:
            status, _, sentence = why
            raise Refused(status, status, f"HTTP {status} {sentence}")

    async def check(self, request: Request) -> None:
        """Refuse who may not come, or may not do that. Raises: Refused."""
        if self._identity is not None and not self._is_user(request):
            await self._check_principal(self._identity, request)
        elif self._has_users:
            self._check_user(request)
        else:
            await self._check_principal(self._callers, request)

    def _is_user(self, request: Request) -> bool:
        return _credentials(request.headers.get("authorization", ""))[0] in {*self._readers, *self._writers}

    async def _check_principal(self, identity: Identity, request: Request) -> None:
        try:
            principal = await identity.principal(request.scope["headers"], request.client and request.client.host)
        except Unauthenticated as error:
            raise Refused(401, 401, f"Unauthorized: {error}") from error
        except IdentityUnavailable as error:
            raise Refused(503, 50301, str(error)) from error
        request.scope["eventlib.caller"] = principal.by
        if not principal.roles:
            raise Refused(403, 40301, f"{principal.by} has no role: reading takes any")
        if _writes(request) and not principal.has(Role.OPERATOR):
            raise Refused(403, 40301, f"{principal.by} may only read: writing takes the role operator")

    def _check_user(self, request: Request) -> None:
        name, password = _credentials(request.headers.get("authorization", ""))
        given = _digest(password)
        known = self._writers.get(name) or self._readers.get(name) or _digest("")
        # Compared in any case, so that the time it takes does not show which names there are.
        if not secrets.compare_digest(given, known) or name not in {*self._writers, *self._readers}:
            raise Refused(401, 401, "Unauthorized: authenticate by Basic authentication, with the right password")
        if name not in self._writers and _writes(request):
            raise Refused(403, 40301, f"User '{name[:80]}' may only read")


def _writes(request: Request) -> bool:
    if request.method in READS:
        return False
    path = request.url.path
    asks = request.method == "POST" and (
        path.startswith("/compatibility/") or not path.rstrip("/").endswith("/versions")
    )
    return not asks


def _credentials(header: str) -> tuple[str, str]:
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


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
    access: Access
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
    log: Log, options: SchemasOptions, url: str, startup: Startup | None = None
) -> AsyncIterator[Service]:
    """Open an instance on a log; others reach it at a URL. It has read the whole topic when it is given.

    `startup` has what it waits for until it can write; without one, that is logged as warnings. `failed` of what is given ends when the instance cannot go on. Raises: UndecodableRecord; what the log raises.
    """
    await log.create_topics([SCHEMAS, WRITERS])
    view = View(log, options.compatibility)
    writer = Writer(log, view, url)
    verify = httpx.create_ssl_context(verify=options.ca) if options.ca else True
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    standing = writer.stand(startup or Startup())
    tasks = [asyncio.create_task(view.follow(), name="follow"), asyncio.create_task(standing, name="stand")]
    for task in tasks:
        task.add_done_callback(lambda done: _fail(failed, done))
    try:
        await view.catch_up()
        async with http_client(verify=verify, trust_env=False) as others:
            forwarding = Forwarding(view, writer, url, others, options.certificate_name)
            registrar = Registrar(view.catalogue, writer, CompareLimits(options.compare_pairs, options.compare_s))
            yield Service(view.catalogue, view, registrar, forwarding, Access(options, identity_of(), url), failed)
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        failed.cancel()


def _fail(failed: asyncio.Future[None], done: asyncio.Task[None]) -> None:
    if not done.cancelled() and not failed.done() and (error := done.exception()) is not None:
        failed.set_exception(error)
