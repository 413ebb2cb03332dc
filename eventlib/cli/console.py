"""`eventlib console`: serves the console until it is stopped."""

import asyncio
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from typing import Annotated

import typer

from eventlib.cli._common.late import LateApp
from eventlib.cli._common.options import AppOption, InsecureOption, LogOption, LogOptions, refuse_missing
from eventlib.cli._common.project import load_choreography
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.config.console import console_options
from eventlib.config.settings import runtime_config
from eventlib.console.app import create_console
from eventlib.console.sessions import SessionIdentity
from eventlib.http.serving import Listening, serve_insecurely
from eventlib.identity.options import identity_options
from eventlib.opening import open_log
from eventlib.personal.opening import personal_options
from eventlib.telemetry.logs import tell


def console(
    context: typer.Context,
    http: Annotated[str, typer.Option("--http", metavar="PORT", help="A port on this machine, or HOST:PORT.")] = "9000",
    insecure: InsecureOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Serve the console, until Ctrl-C: find a saga, see why, act, in a browser.

    It runs in its own process, with indexes of its own that it makes from the
    log: services pay nothing for it. Operators act, auditors look; personal
    data is masked for auditors. Without an identity (EVENTLIB_IDENTITY_…) it
    serves this machine only. People log in at the issuer with
    EVENTLIB_CONSOLE_CLIENT_ID and EVENTLIB_CONSOLE_URL, or by a named token.
    Who acted is on the log with the act, and why (`eventlib acts`).

    [dim]Examples:[/dim]
      eventlib console
      eventlib console --http 0.0.0.0:9000
    """
    serve_insecurely(wanted=insecure)
    serve_console(LogOptions.of(context, app, log), http)


def serve_console(log_options: LogOptions, http: str) -> None:
    """Serve the console until SIGINT or SIGTERM. Raises: WiringError, SettingsError."""
    choreography = load_choreography(log_options.app)
    refuse_missing(log_options.url)
    options = console_options()
    identity = SessionIdentity(identity_options(), options.session_s)

    async def serve() -> None:
        stop, state_dir = stop_signal(), runtime_config().state_dir
        with starting_up(log_options.url, state_dir, "the console") as startup, suppress(Stopped):
            async with AsyncExitStack() as stack:
                listening = stack.enter_context(closing(Listening(http, identity=identity)))
                late = LateApp(lambda: startup.lacks)
                server = await stack.enter_async_context(listening.serve(late))
                async with unless_stopped(stop):
                    rights = personal_options().personal_master is not None
                    opened = partial(open_log, log_options.url, choreography, read_only=True, personal=rights)
                    log = await startup.enter(stack, f"the log {log_options.url}", opened)
                await stack.enter_async_context(
                    late.opened(create_console(log, identity, options, state_dir=state_dir))
                )
                stack.push_async_callback(server.stop)
                tell(f"The console of {choreography.name} is at {listening.url}; Ctrl-C stops.")
                done, _ = await asyncio.wait([stop, server.task], return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()

    asyncio.run(serve())
