"""`eventlib replay`: today's code on old days."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from eventlib.cli.opened import refuse_missing
from eventlib.cli.options import LogOptions
from eventlib.cli.project import load_choreography
from eventlib.cli.replay_output import print_gate, print_report
from eventlib.eventlog import EventLog
from eventlib.fork_pool import cores, in_processes
from eventlib.opening import open_log
from eventlib.replay import PreflightReport, Report, Shard, replay
from eventlib.replay.in_flight import Flights
from eventlib.replay.report import NOTHING_COMPARED, merged
from eventlib.replay.stuck_sagas import Standing, standing
from eventlib.runtime import collect_garbage_seldom
from eventlib.values import time_of

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
                lambda log: replay(
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
