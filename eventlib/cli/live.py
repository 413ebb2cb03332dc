"""`eventlib live`: the views of services, until they are stopped; and how they begin anew."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from eventlib.cli import output
from eventlib.cli.http import host_and_port
from eventlib.cli.options import LOG_VARIABLE, LogOptions
from eventlib.cli.output import counted
from eventlib.cli.person import agree
from eventlib.cli.project import load_choreography
from eventlib.cli.stopping import starting_up, stop_signal
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.contracts.view_manifest import Viewing, views_module
from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.telemetry.logs import set_up_logging, tell
from eventlib.telemetry.options import telemetry_options

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp


def run_live(place: LogOptions, only: list[str], http: str | None, metrics: str | None = None) -> None:
    """Run views until SIGINT or SIGTERM, or until something fails for good."""
    at = None if http is None else host_and_port(http, "--http", least=1, example=6066)  # of ports in a row
    apps = _apps(place, only)
    settings, options = eventlib_settings(), telemetry_options()
    set_up_logging(settings.log_format, settings.log_level)
    measured = None if options.sdk_disabled else metrics or options.metrics_place
    asyncio.run(_run(apps, at, place.url, measured))


async def _run(apps: "list[LiveApp]", at: tuple[str, int] | None, url: str, metrics: str | None) -> None:
    from eventlib.live.running import first_of, run_views

    stop, runs = stop_signal(), f"live views of {', '.join(app.of for app in apps)}"
    async with AsyncExitStack() as stack:
        startup = stack.enter_context(starting_up(url, runtime_config().state_dir, runs))
        for app in apps:
            app.startup = startup
        seen = ""
        if metrics is not None:
            seen, serving = await _serve_metrics(stack, apps, metrics)
            stop = asyncio.ensure_future(first_of(stop, serving))
            stack.callback(stop.cancel)

        def started() -> None:
            pages = [f"{app.of} at {app.conf.canonical_url}/views" if at else app.of for app in apps]
            pages += [f"metrics at {seen}/metrics"] if seen else []
            tell(f"Running live views of {', '.join(pages)} on {url}; Ctrl-C stops.")

        await run_views(apps, at, stop, started)
    tell("Stopped.")


async def _serve_metrics(stack: AsyncExitStack, apps: "list[LiveApp]", place: str) -> "tuple[str, asyncio.Task[None]]":
    """Serve the metrics of views until the stack is left; return where, and what is done only when that has failed."""
    from eventlib.cli.http import Listening
    from eventlib.live.figures import look_at

    try:
        from eventlib.telemetry.process import measured_views
    except ModuleNotFoundError as error:
        raise WiringError(f"metrics need the package {error.name}: install eventlib-sagas[telemetry]") from error

    def lacks() -> str:
        if waits_for := apps[0].startup.lacks:
            return f"waits for {waits_for}"
        return next((lacking for app in apps if (lacking := app.queries.lacking())), "")

    listening = stack.enter_context(closing(Listening(place, option="--metrics-port")))
    measured = stack.enter_context(measured_views(apps[0].choreography, partial(look_at, apps), lacks))
    return listening.url, (await stack.enter_async_context(listening.serve(measured))).task


def reset_live(place: LogOptions, only: list[str], *, yes: bool, as_json: bool) -> None:
    """Forget what views have computed. Raises: ContractError while they run."""
    from eventlib.live.running import reset_views

    apps = _apps(place, only)
    names = ", ".join(app.of for app in apps)
    agree(f"Compute the live views of {names} anew, from the beginning of {place.url}?", yes=yes)
    for app in apps:
        topics = asyncio.run(reset_views(app))
        if as_json:
            output.print_json([{"service": app.of, "topics": list(topics)}])
        else:
            print(f"{app.of}: {counted(len(topics), 'topic')} and the tables are gone; the next start computes them.")


def declared_views(choreography: Choreography) -> list[Viewing]:
    """Return what the live views of a choreography's services declare, of those that have any.

    Raises: WiringError when there are some, and Faust is not installed.
    """
    having = [service for service in choreography.services if find_spec(views_module(service)) is not None]
    if not having:
        return []
    with _faust_or_remedy():
        from eventlib.live.running import load_views
    return [app.viewing for app in load_views(choreography, having)]


def _apps(place: LogOptions, only: list[str]) -> "list[LiveApp]":
    choreography = load_choreography(place.app)
    services = [choreography.service(name) for name in only] or list(choreography.services)
    with _faust_or_remedy():
        from eventlib.live.connection import refuse_elsewhere
        from eventlib.live.running import load_views
    refuse_elsewhere(place.url)
    os.environ[LOG_VARIABLE] = place.url  # where views look when they are imported, also by Faust's own command
    return load_views(choreography, services)


@contextmanager
def _faust_or_remedy() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise WiringError(f"live views need the package {error.name}: install eventlib-sagas[live,kafka]") from error
