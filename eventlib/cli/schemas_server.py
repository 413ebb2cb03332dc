"""Runs the schema registry until it is stopped."""

import asyncio
import socket
from contextlib import AsyncExitStack, closing
from functools import partial

from eventlib.cli._common.log_server import Served, serve_late
from eventlib.ground.startup import Startup
from eventlib.http.registry.app import make_app
from eventlib.http.registry.options import SchemasOptions
from eventlib.http.registry.service import open_service
from eventlib.http.serving import Listening
from eventlib.identity.identity import identity_of
from eventlib.log.open import open_port
from eventlib.registry.errors import NO_WRITER


def serve_schemas(url: str, options: SchemasOptions) -> None:
    """Serve until SIGINT or SIGTERM. Raises: WiringError when the address cannot be used; errors of the log."""

    async def begin(stack: AsyncExitStack, startup: Startup) -> Served:
        log = await startup.run(f"the log {url}", lambda: open_port(url))
        stack.push_async_callback(log.close)
        own = str(options.address or _reached(listening.url)).rstrip("/")
        service = await startup.enter(stack, f"the schemas on {url}", partial(open_service, log, options, own, startup))
        told = f"schemas of {log.url} on {listening.url} (/docs){_warning()}"
        return Served(make_app(service), told, [service.failed], service.registrar.end)

    own_host = None if options.address is None else options.address.host
    with closing(Listening(options.port, option="--port", own_host=own_host)) as listening:
        asyncio.run(serve_late(listening, "the schema registry", url, begin, NO_WRITER))


def _reached(url: str) -> str:
    """Return the URL that clients use: 0.0.0.0 is an address for this machine only."""
    return url.replace("//0.0.0.0:", f"//{socket.getfqdn()}:").replace("//[::]:", f"//{socket.getfqdn()}:")


def _warning() -> str:
    identity = identity_of()
    if identity.is_configured:
        return ""
    everyone = "everyone who reaches it" if identity.options.insecure else "everyone on this machine"
    return f"; {everyone} may write: set EVENTLIB_IDENTITY_TOKENS_FILE to restrict this"
