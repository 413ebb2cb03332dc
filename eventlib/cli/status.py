"""`eventlib status`: the services' status, once or refreshed, and whether they are healthy."""

from collections.abc import Mapping
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, flag, option, run_on_log
from eventlib.cli._common.status_screen import status_screen
from eventlib.cli.watch import watch_status
from eventlib.config.settings import runtime_config
from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import status_json
from eventlib.operations.complaints import Limits, complaints
from eventlib.operations.deployments import Deployment, deployments, newest_of
from eventlib.operations.startup_waits import waiting_here
from eventlib.operations.status import Status, StatusReader
from eventlib.telemetry.logs import tell


def status(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    watch: Annotated[bool, flag("--watch -w", "Refresh until Ctrl-C.")] = False,
    every: Annotated[float, option("--every", "SECONDS", "The refresh interval, with --watch.", min=0.1)] = 2.0,
    sagas: Annotated[
        bool, flag("--sagas", "Count sagas by state, too: reads each state once, about 10 µs each.")
    ] = False,
    max_behind: Annotated[
        float, option("--max-behind", "SECONDS", "How old the oldest unhandled input may be.", min=0)
    ] = 60.0,
    max_parked: Annotated[int, option("--max-parked", "N", "How many keys and effects may be parked.", min=0)] = 0,
    max_overdue: Annotated[
        int, option("--max-overdue", "N", "How many sagas may be overdue, with --sagas.", min=0)
    ] = 0,
    allow_stopped: Annotated[bool, flag("--allow-stopped", "Also healthy when a task has no owner.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the status of services: owners, lag, pending, parked, overdue.

    It reads only the log, whether the services run or not: tasks store their
    cursors on their changelogs. On the machine of an SQLite log it costs
    milliseconds; elsewhere it first reads the changelogs, and --watch then only
    new records.

    Exit code 1 when not healthy: a task without an owner, one that is behind
    for too long, too many parked or overdue, inputs that are gone before they
    were read, a topic with other partitions than declared, an open transaction
    that hides inputs for too long.

    [dim]Examples:[/dim]
      eventlib status
      eventlib status --watch --sagas
      eventlib status --json --max-behind 10 | jq .complaints
    """
    limits = Limits(max_behind, max_parked, max_overdue, allow_stopped)
    if not watch:
        raise typer.Exit(print_status(log_options, limits, sagas=sagas, as_json=as_json))
    if as_json:
        raise typer.BadParameter("refreshes a screen: use `eventlib watch --json`", param_hint="--watch / --json")
    watch_status(log_options, limits, every, sagas=sagas)


def print_status(log_options: LogOptions, limits: Limits, *, sagas: bool, as_json: bool) -> int:
    """Print the status of services; return 0 when all are healthy, else 1."""
    state_dir = runtime_config().state_dir

    async def read(log: EventLog) -> tuple[Status, Mapping[str, Deployment]]:
        status = await StatusReader(log, with_sagas=sagas, state_dir=state_dir).read()
        return status, newest_of(await deployments(log.port))

    try:
        status, newest = run_on_log(log_options, read)
    except RetryableError:  # other processes may wait for the same cause
        for each in waiting_here(log_options.url, state_dir):
            tell(each.sentence)
        raise
    found = complaints(status, limits)
    if as_json:
        output.print_json(
            [{**status_json(status, found), "deployments": {name: newest[name].json() for name in newest}}]
        )
    else:
        output.terminal().print(status_screen(status, found))
        for deployed in {each.id: each for each in newest.values()}.values():
            services = ", ".join(name for name in newest if newest[name] is deployed)
            revision = f", revision {deployed.revision_shown}" if deployed.revision else ""
            output.say(f"deployed  {services}: code {deployed.code_version}{revision}, {deployed.at}", "dim")
    return 1 if found else 0
