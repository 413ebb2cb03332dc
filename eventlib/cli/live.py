"""`eventlib live`: runs the live views of services until they are stopped, and resets them."""

import asyncio
import os
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.extras import installed_by
from eventlib.cli._common.metrics import metrics_address, serve_metrics
from eventlib.cli._common.names import OfServicesOption
from eventlib.cli._common.options import (
    LOG_VARIABLE,
    AppOption,
    InsecureOption,
    JsonOption,
    LogOption,
    LogOptions,
    MetricsOption,
    option,
)
from eventlib.cli._common.output import counted
from eventlib.cli._common.prompts import YesOption, agree
from eventlib.cli._common.stopping import starting_up, stop_signal
from eventlib.cli._common.typer_ext import Commands
from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.ground.tasks import first_of
from eventlib.http.serving import host_and_port, serve_insecurely
from eventlib.model.project import load_choreography
from eventlib.personal.opening import has_personal
from eventlib.telemetry.logs import set_up_logging, tell

if TYPE_CHECKING:
    from eventlib.live.app import LiveApp

live = Commands()


@live.callback(invoke_without_command=True)
def run(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: OfServicesOption = None,
    http: Annotated[
        str | None,
        option(
            "--http",
            "PORT",
            "Serve queries: a port on this machine, or HOST:PORT; each further service takes the next port.",
        ),
    ] = None,
    metrics_port: MetricsOption = None,
    insecure: InsecureOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run the live views of services (all by default) until they are stopped.

    Tables and streams for live display, computed by Faust from a log on Kafka.
    They make no decisions, and can be rebuilt at any time: `eventlib live
    reset`. Workers on several machines share the work; each of them answers
    queries for all. `faust -A services.order.views worker` does the same for
    one service.

    [dim]Examples:[/dim]
      eventlib live --http 6066
      eventlib live --http 6066 --metrics-port 9464
      eventlib live --service order --http 0.0.0.0:6066 --log kafka://broker:9092
      curl 'localhost:6066/views/outcomes?key=France'
    """
    if context.invoked_subcommand is not None:
        if service or http or metrics_port:
            hint = "--service / --http / --metrics-port"
            raise typer.BadParameter(f"give it after `{context.invoked_subcommand}`", param_hint=hint)
        return
    serve_insecurely(wanted=insecure)
    log_options = LogOptions.of(context, app, log)
    at = None if http is None else host_and_port(http, "--http", least=1, example=6066)  # of ports in a row
    apps = _apps(log_options, service or [])
    settings = eventlib_settings()
    is_personal = any(has_personal(each.choreography) for each in apps)
    set_up_logging(settings.log_format, settings.log_level, personal=is_personal)
    asyncio.run(_run(apps, at, log_options.url, metrics_address(metrics_port)))


@live.command()
def reset(
    log_options: LogOptions, service: OfServicesOption = None, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Rebuild live views: delete their offsets, tables and changelogs.

    Stop their workers first. The next start reads the log from its beginning.
    Alerts and derived topics stay; events emitted again keep their ids.

    [dim]Examples:[/dim]
      eventlib live reset
      eventlib live reset --service stock --yes
    """
    from eventlib.live.running import reset_views

    apps = _apps(log_options, service or [])
    names = ", ".join(each.of for each in apps)
    agree(f"Rebuild the live views of {names}, from the beginning of {log_options.url}?", yes=yes)
    for each in apps:
        topics = asyncio.run(reset_views(each))
        if as_json:
            output.print_json([{"service": each.of, "topics": list(topics)}])
        else:
            print(
                f"{each.of}: {counted(len(topics), 'topic')} and the tables are deleted; the next start rebuilds them."
            )


async def _run(apps: "list[LiveApp]", at: tuple[str, int] | None, url: str, metrics: str | None) -> None:
    from eventlib.live.running import run_views

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


async def _serve_metrics(
    stack: AsyncExitStack, apps: "list[LiveApp]", address: str
) -> "tuple[str, asyncio.Task[None]]":
    """Serve the metrics of views until the stack is left; return the address, and a task that ends only on failure."""
    from eventlib.live.counters import views_snapshot

    def lacks() -> str:
        if waits_for := apps[0].startup.lacks:
            return f"waits for {waits_for}"
        return next((lacking for app in apps if (lacking := app.queries.lacking())), "")

    choreography = apps[0].choreography
    return await serve_metrics(stack, address, choreography, "views", partial(views_snapshot, apps), lacks)


def _apps(log_options: LogOptions, only: list[str]) -> "list[LiveApp]":
    choreography = load_choreography(log_options.app)
    services = [choreography.service(name) for name in only] or list(choreography.services)
    with installed_by("live"):
        from eventlib.live.connection import refuse_elsewhere
        from eventlib.live.running import load_views
    refuse_elsewhere(log_options.url)
    os.environ[LOG_VARIABLE] = log_options.url  # where views look when they are imported, also by Faust's own command
    return load_views(choreography, services)
