"""The outcomes of requests about parked keys and effects: whether their tasks have done them, and with what result."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Literal, NamedTuple

from eventlib.eventlog import EventLog
from eventlib.log.reading import records_between
from eventlib.queries.parked import Parking, parkings_in
from eventlib.queries.task_metadata import TaskNotes
from eventlib.runtime.parking.control import ParkedRetryRequested, request_in

Outcome = Literal["asked", "handled", "parked again"]
Name = tuple[str, str, str]
_LOOKS_S = 0.1


class CommandQuery(NamedTuple):
    """A request to a service about a parked key or effect, at an offset of its control topic."""

    parking: Parking
    offset: int


class Outcomes:
    """Follows requests until their tasks have done them; `refresh` reads their progress.

    `parked_again` has those that failed again, as they are parked now.
    """

    def __init__(self, log: EventLog, asked: Sequence[CommandQuery]) -> None:
        services = {each.parking.service for each in asked}
        self.parked_again: dict[Name, Parking] = {}
        self._log = log
        self._open = {(each.parking.name, each.offset): each for each in asked}
        self._outcomes: dict[tuple[Name, int], Outcome] = dict.fromkeys(self._open, "asked")
        tasks = {(each.parking.service, each.parking.partition) for each in asked}
        every = [log.choreography.service(name) for name in sorted(services)]
        self._notes = TaskNotes(log, [(s, p) for s in every for p in range(s.partitions) if (s.name, p) in tasks])

    async def refresh(self) -> int:
        """Read what tasks have done since; return how many requests are still open."""
        await self._notes.refresh()
        parked = {each.name: each for each in await parkings_in(self._notes)}
        reached = await self._reached()
        for about, asked in [*self._open.items()]:
            now = parked.get(asked.parking.name)
            if now is None:
                self._outcomes[about] = "handled"
            elif reached.get((asked.parking.service, asked.parking.partition), 0) <= asked.offset:
                continue
            else:
                self._outcomes[about], self.parked_again[now.name] = "parked again", now
            del self._open[about]
        return len(self._open)

    async def follow(self, wait_s: float, progress: Callable[[int, int], None]) -> None:
        """Refresh until all is done, or nothing progresses for a while (s); `progress` is told how many are, of how many."""
        of = len(self._open)
        left, moved_at = await self.refresh(), monotonic()
        progress(of - left, of)
        while left and monotonic() - moved_at < wait_s:
            await asyncio.sleep(_LOOKS_S)
            before, left = left, await self.refresh()
            if left < before:
                moved_at = monotonic()
                progress(of - left, of)

    @property
    def all(self) -> list[Outcome]:
        """The outcome of each request, in the order in which they were given."""
        return [*self._outcomes.values()]

    async def _reached(self) -> Mapping[tuple[str, int], int]:
        found = dict[tuple[str, int], int]()
        for service, partition in self._notes.tasks:
            positions = await self._notes.positions(service, partition)
            if positions is not None:
                found[service.name, partition] = positions.next.get(service.control.name, 0)
        return found


async def pending_retries(log: EventLog, found: Sequence[Parking]) -> dict[Name, int]:
    """Return which of these have a pending retry request, with its offset on the control topic."""
    wanted = {(each.service, each.partition): log.choreography.service(each.service) for each in found}
    notes = TaskNotes(log, [(service, partition) for (_, partition), service in wanted.items()])
    await notes.refresh()
    asked = dict[Name, int]()
    for service, partition in notes.tasks:
        positions = await notes.positions(service, partition)
        first = 0 if positions is None else positions.next.get(service.control.name, 0)
        place = service.control.name, partition
        async for record in records_between(log.port, place, max(first, await log.port.start(*place))):
            request = await request_in(record, log.codec)
            if isinstance(request, ParkedRetryRequested):
                asked[service.name, request.decider, request.key] = record.offset
                asked[service.name, "", request.key] = record.offset
    return {each.name: asked[each.name] for each in found if each.name in asked}
