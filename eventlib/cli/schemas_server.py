"""Runs the schema registry until it is stopped."""

import asyncio
import socket
from contextlib import AsyncExitStack, closing, suppress
from functools import partial

from eventlib.cli._common.late import LateApp
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.config.settings import runtime_config
from eventlib.ground.tasks import first_of
from eventlib.http.registry.app import make_app
from eventlib.http.registry.options import SchemasOptions
from eventlib.http.registry.service import open_service
from eventlib.http.serving import Listening
from eventlib.identity.identity import identity_of
from eventlib.log.open import open_port
from eventlib.registry.errors import NO_WRITER
from eventlib.telemetry.logs import tell


def serve_schemas(url: str, options: SchemasOptions) -> None:
    """Serve until SIGINT or SIGTERM. Raises: WiringError when the address cannot be used; errors of the log."""
    own_host = None if options.address is None else options.address.host
    with closing(Listening(options.port, option="--port", own_host=own_host)) as listening:
        asyncio.run(_serve(url, options, listening))


async def _serve(url: str, options: SchemasOptions, listening: Listening) -> None:
    stop = stop_signal()
    own = str(options.address or _reached(listening.url)).rstrip("/")
    with starting_up(url, runtime_config().state_dir, "the schema registry") as startup, suppress(Stopped):
        async with AsyncExitStack() as stack:
            late = LateApp(lambda: startup.lacks, error_code=NO_WRITER)
            server = await stack.enter_async_context(listening.serve(late))
            async with unless_stopped(stop):
                log = await startup.run(f"the log {url}", lambda: open_port(url))
                stack.push_async_callback(log.close)
                opened = partial(open_service, log, options, own, startup)
                service = await startup.enter(stack, f"the schemas on {url}", opened)
            await stack.enter_async_context(late.opened(make_app(service)))
            stack.push_async_callback(server.stop)
            tell(f"schemas of {log.url} on {listening.url} (/docs){_warning()}")
            try:
                await first_of(stop, server.task, service.failed)
            finally:
                service.registrar.end()


def _reached(url: str) -> str:
    """Return the URL that clients use: 0.0.0.0 is an address for this machine only."""
    return url.replace("//0.0.0.0:", f"//{socket.getfqdn()}:").replace("//[::]:", f"//{socket.getfqdn()}:")


def _warning() -> str:
    identity = identity_of()
    if identity.is_configured:
        return ""
    everyone = "everyone who reaches it" if identity.options.insecure else "everyone on this machine"
    return f"; {everyone} may write: set EVENTLIB_IDENTITY_TOKENS_FILE to restrict this"
