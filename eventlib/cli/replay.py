"""`eventlib replay`: runs today's code over recorded history, and compares."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, refuse_missing
from eventlib.cli._common.project import load_choreography
from eventlib.cli.replay_debugger import Break, Debugger, debug
from eventlib.cli.replay_report import print_gate, print_report
from eventlib.eventlog import EventLog
from eventlib.fork_pool import cores, in_processes
from eventlib.opening import open_log
from eventlib.replay import PreflightReport, Report, Shard
from eventlib.replay import replay as replay_log
from eventlib.replay.in_flight import Flights
from eventlib.replay.report import NOTHING_COMPARED, merged
from eventlib.replay.stuck_sagas import Standing, standing
from eventlib.runtime import collect_garbage_seldom
from eventlib.values import time_of

_DEBUGGER = "In the debugger"


def replay(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", "-s", metavar="NAME", help="Only this service; may be repeated.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Compare what was decided from this time (UTC) on, such as 2026-01-31T12:00:00Z.",
            show_default=False,
        ),
    ] = None,
    in_flight: Annotated[
        bool,
        typer.Option("--in-flight", metavar="", help="Only what has not ended: the gate before a deployment."),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="Of how many sagas a difference is shown in full.")
    ] = 10,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "-k",
            metavar="KEY",
            help="An order's id: what the decider has.",
            rich_help_panel=_DEBUGGER,
            show_default=False,
        ),
    ] = None,
    break_at: Annotated[
        str | None,
        typer.Option(
            "--break-at",
            metavar="EVENT_ID",
            help="Stop where this event was handled under the key, or else said; or a deadline's name.",
            rich_help_panel=_DEBUGGER,
            show_default=False,
        ),
    ] = None,
    decider: Annotated[
        str | None,
        typer.Option(
            "--decider",
            "-d",
            metavar="NAME",
            help="Stop only in this one.",
            rich_help_panel=_DEBUGGER,
            show_default=False,
        ),
    ] = None,
    debugger: Annotated[
        Debugger,
        typer.Option(
            "--debugger",
            metavar="NAME",
            help="pdb, or debugpy: it waits for an IDE to attach.",
            rich_help_panel=_DEBUGGER,
        ),
    ] = "pdb",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=1, max=65_535, help="Where debugpy waits.", rich_help_panel=_DEBUGGER
        ),
    ] = 5678,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin",
            metavar="",
            help="Let pdb read its commands from a stdin that is no terminal.",
            rich_help_panel=_DEBUGGER,
        ),
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Run today's code over the recorded past, and compare.

    Each recorded input is decided again, in the recorded order, and what
    today's code says is compared with what was said: types, fields, keys,
    order. Nothing differs: exit code 0. Else 1, with the handlers and the
    sagas. The past stays as it was: what follows from an input is what
    was recorded, so one change counts once. No effect is run.

    --in-flight compares only the sagas that have not ended, and lists those
    that today's code would strand: their state cannot be read, or nothing
    is left that moves them.

    With --break-at it makes one call again, and stops in the debugger at the
    handler's first line, with the state and the event of that moment as the
    handler's own arguments; in each of them when several handled the event.

    [dim]Examples:[/dim]
      eventlib replay
      eventlib replay --service stock --since 2026-01-31
      eventlib replay --in-flight
      eventlib replay --json | jq '.handlers[] | select(.differences > 0)'
      eventlib replay --key 536365 --break-at 6dd20bf1
    """
    if key is not None and break_at is not None:
        debug(LogOptions.of(context, app, log), Break(key, break_at, decider, debugger, port, stdin))
        return
    if key is not None or break_at is not None or decider is not None:
        raise typer.BadParameter("--key and --break-at go together, perhaps with --decider", param_hint="--break-at")
    place, wanted = LogOptions.of(context, app, log), ReplayOptions(tuple(service or ()), since, limit)
    run = replay_in_flight if in_flight else replay_all
    raise typer.Exit(run(place, wanted, as_json=as_json))


T = TypeVar("T")


_OBJECTS = 500_000
"""More than a replay holds in its window: as long as that moves on there is nothing to collect."""


_MOST_PROCESSES = 4
"""How many share a replay at most: every one of them reads the whole log."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What is to be compared: services (none: all), from when on, and of how many sagas a difference is shown."""

    services: tuple[str, ...]
    since: str | None
    limit: int


def replay_all(place: LogOptions, wanted: ReplayOptions, *, as_json: bool) -> int:
    """Print what today's code would have done otherwise, and return the exit code: 1 if anything."""
    report = _Replayer(place, wanted).report()
    print_report(report, as_json=as_json)
    return 0 if report.same else 1


def replay_in_flight(place: LogOptions, wanted: ReplayOptions, *, as_json: bool) -> int:
    """Print what today's code would do to the sagas in flight, and return the exit code: 1 if it cannot take over."""
    found = _Replayer(place, wanted).gate()
    print_gate(found, as_json=as_json)
    return 0 if found.is_open else 1


class _Replayer:
    """Replays a log in several processes; each opens it for itself."""

    def __init__(self, place: LogOptions, wanted: ReplayOptions) -> None:
        self._choreography = load_choreography(place.app)
        refuse_missing(place.url)
        self._url = place.url
        self._since = None if wanted.since is None else time_of(wanted.since)
        self._services = [self._choreography.service(name).name for name in wanted.services] or None
        self._limit = wanted.limit
        collect_garbage_seldom(growth=_OBJECTS)

    def report(self, sagas: Collection[str] | None = None) -> Report:
        """Return what differs, of some sagas or of all."""
        count = min(cores(), _MOST_PROCESSES)

        def work(index: int) -> Report:
            part = Shard(index, count)
            return self._opened(
                lambda log: replay_log(
                    log, services=self._services, since=self._since, sagas=sagas, limit=self._limit, part=part
                )
            )

        return merged(in_processes(work, count), self._limit)

    def gate(self) -> PreflightReport:
        """Return how the sagas in flight stand, and what differs for them."""

        async def look(log: EventLog) -> tuple[Flights, Standing]:
            flights = Flights(log)
            return flights, await standing(log, flights)

        flights, found = self._opened(look)
        return PreflightReport(found, self.report(flights.keys) if flights.keys else NOTHING_COMPARED)

    def _opened(self, look: Callable[[EventLog], Awaitable[T]]) -> T:
        async def opened() -> T:
            async with open_log(self._url, self._choreography, read_only=True) as log:
                return await look(log)

        return asyncio.run(opened())
