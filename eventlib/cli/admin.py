"""`eventlib admin`: serves the operators' HTTP API until it is stopped."""

import asyncio
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from typing import Annotated

import typer

from eventlib.admin_api import create_admin
from eventlib.cli._common.late import LateApp
from eventlib.cli._common.options import AppOption, InsecureOption, LogOption, LogOptions, refuse_missing
from eventlib.cli._common.project import load_choreography
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.errors import WiringError
from eventlib.http.serving import Listening, serve_insecurely
from eventlib.identity.identity import identity_of
from eventlib.opening import open_log
from eventlib.personal.opening import personal_options
from eventlib.telemetry.logs import tell


def admin(
    context: typer.Context,
    http: Annotated[str, typer.Option("--http", metavar="PORT", help="A port on this machine, or HOST:PORT.")],
    insecure: InsecureOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Serve an HTTP API for operators, until Ctrl-C: status and parked keys.

    It offers `eventlib status` and `eventlib parked` to other tools. It runs in
    its own process, on its own port: customers' requests cannot reach it.
    Callers carry a token of the configured identity (EVENTLIB_IDENTITY_…):
    operators act, auditors look. EVENTLIB_ADMIN_TOKEN is one more operator's.
    Without either the API does not start. /healthz is public: 200 or 503.
    Who acted is the token's name, on the log with the act (`eventlib acts`).
    With EVENTLIB_PERSONAL_MASTER operators see and edit personal fields.

    [dim]Examples:[/dim]
      EVENTLIB_ADMIN_TOKEN=$(openssl rand -hex 32) eventlib admin --http 9000
      curl -H "Authorization: Bearer $TOKEN" localhost:9000/parked
      curl -H "Authorization: Bearer $TOKEN" localhost:9000/parked/retry --json '{}'
    """
    serve_insecurely(wanted=insecure)
    serve_admin(LogOptions.of(context, app, log), http)


def serve_admin(log_options: LogOptions, http: str) -> None:
    """Serve the admin API until SIGINT or SIGTERM. Raises: WiringError without a token."""
    choreography = load_choreography(log_options.app)
    refuse_missing(log_options.url)
    token, identity = eventlib_settings().admin_token, identity_of()
    if token is None and not (identity.is_configured or identity.options.insecure):
        raise WiringError(
            "the admin API is off: set EVENTLIB_ADMIN_TOKEN to a long random text, for example from `openssl rand -hex 32`, "
            "or configure an identity (EVENTLIB_IDENTITY_…)"
        )
    tokens = [] if token is None else [each.strip() for each in token.get_secret_value().split(",")]

    async def serve() -> None:
        stop, state_dir = stop_signal(), runtime_config().state_dir
        with starting_up(log_options.url, state_dir, "the admin API") as startup, suppress(Stopped):
            async with AsyncExitStack() as stack:
                listening = stack.enter_context(closing(Listening(http, identity=None if tokens else identity)))
                late = LateApp(lambda: startup.lacks)
                server = await stack.enter_async_context(listening.serve(late))
                async with unless_stopped(stop):
                    rights = personal_options().personal_master is not None
                    opened = partial(open_log, log_options.url, choreography, read_only=True, personal=rights)
                    log = await startup.enter(stack, f"the log {log_options.url}", opened)
                await stack.enter_async_context(
                    late.opened(create_admin(log, *tokens, state_dir=state_dir, identity=identity))
                )
                stack.push_async_callback(server.stop)
                tell(f"The admin API of {choreography.name} is at {listening.url}; Ctrl-C stops.")
                done, _ = await asyncio.wait([stop, server.task], return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()

    asyncio.run(serve())
