"""Serves an HTTP app on a log, until the process is told to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from typing import Any, NamedTuple

from eventlib.cli._common.late import LateApp
from eventlib.cli._common.stopping import Stopped, starting_up, stop_signal, unless_stopped
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.ground.tasks import first_of
from eventlib.http.serving import Listening
from eventlib.identity.identity import Identity
from eventlib.model.choreography import Choreography
from eventlib.opening import open_log
from eventlib.personal.opening import has_personal, personal_options
from eventlib.telemetry.logs import set_up_logging, tell


def serve_on_log(  # noqa: PLR0913  one argument for each thing that it brings together
    what: str,
    choreography: Choreography,
    url: str,
    http: str,
    identity: Identity | None,
    app: Callable[[EventLog, str], Any],
    *,
    personal: bool = True,
) -> None:
    """Serve `what`, the app that `app` makes of the open log and the state directory, until SIGINT or SIGTERM.

    It listens first, and answers 503 until the log is open. `identity` guards the address (None: the app has its own).
    Personal fields are read where this process has the keys, unless `personal` says that they never are.
    """
    settings = eventlib_settings()
    set_up_logging(settings.log_format, settings.log_level, personal=has_personal(choreography))

    async def begin(stack: AsyncExitStack, startup: Startup) -> Served:
        rights = personal and personal_options().personal_master is not None
        opened = partial(open_log, url, choreography, read_only=True, personal=rights)
        log = await startup.enter(stack, f"the log {url}", opened)
        told = f"{what[0].upper()}{what[1:]} of {choreography.name} is at {listening.url}; Ctrl-C stops."
        return Served(app(log, runtime_config().state_dir), told)

    with closing(Listening(http, identity=identity)) as listening:
        asyncio.run(serve_late(listening, what, url, begin))


class Served(NamedTuple):
    """An app that can be served, the sentence that says so, what may fail beside it, and what ends before it does."""

    app: Any
    told: str
    beside: Sequence["asyncio.Future[Any]"] = ()
    end: Callable[[], None] = lambda: None


async def serve_late(
    listening: Listening,
    what: str,
    url: str,
    begin: Callable[[AsyncExitStack, Startup], Awaitable[Served]],
    error_code: int | None = None,
) -> None:
    """Serve what `begin` makes until SIGINT or SIGTERM; until it is there, requests get a 503 that says what it waits for.

    `error_code` is in it as in `LateApp`. Raises: what the server, or something beside it, fails with.
    """
    stop = stop_signal()
    with starting_up(url, runtime_config().state_dir, what) as startup, suppress(Stopped):
        async with AsyncExitStack() as stack:
            late = LateApp(lambda: startup.lacks, error_code)
            server = await stack.enter_async_context(listening.serve(late))
            async with unless_stopped(stop):
                served = await begin(stack, startup)
            await stack.enter_async_context(late.opened(served.app))
            stack.push_async_callback(server.stop)
            tell(served.told)
            try:
                await first_of(stop, server.task, *served.beside)
            finally:
                served.end()
