"""Readers of the pages: sagas and their histories by the console's own index, masked by roles; and news of the log."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sse_starlette import ServerSentEvent

from eventlib.errors import DamagedRecord, EventlibError, LogUnavailable, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.http.open_streams import CountedStream, OpenStreams
from eventlib.http.paths import KEY
from eventlib.identity.principal import READERS, allow
from eventlib.index.acts import sent_topics
from eventlib.model.event import Event, contract_of
from eventlib.model.identity import is_sampled
from eventlib.model.personal import masked
from eventlib.model.record import Record, key_text
from eventlib.model.saga import Saga, saga_of
from eventlib.operations.status import Status, StatusReader
from eventlib.queries.parked import Parking
from eventlib.queries.projection import Projection
from eventlib.replay.key_history import KeyHistory, key_history
from eventlib.search.saga_search import SagaSearch

_FRESH_S = 1.0
_HISTORIES = 64
_SOON, _SOON_S = 5_000, 1.0
"""How many records an index may lack at most for a page to wait for them, and how long."""


class ConsoleIndex(SagaSearch):
    """The index of a log with all that pages show: sagas, the places of their events, and acts."""

    def _topics_of(self, log: EventLog) -> list[str]:
        services = log.choreography.services
        acted = [topic.name for service in services for topic in (service.control, service.journal)]
        return [*super()._topics_of(log), *acted, *(topic.name for topic in sent_topics(log))]


class SagaReader:
    """Reads one saga after the other: its events from the log, by an index of their places, its histories from the journals.

    The histories of the sagas that were looked at last are kept, until their sagas go on.
    """

    def __init__(self, index: SagaSearch) -> None:
        self.log = index.log
        self.index = index
        self._histories = OrderedDict[str, tuple[int, Sequence[KeyHistory]]]()
        self._reading = asyncio.Lock()

    async def saga(self, key: str, *, personal: bool) -> Saga | None:
        """Return a saga; None when no event has its key. Without `personal` its personal fields are masked."""
        records = await self._events(key)
        once = {record.event_id: record for record in reversed(records)}
        if not once:
            return None
        decoded = await self.log.decode_many(once.values())
        if not personal:
            decoded = [(record, masked(read) if isinstance(read, Event) else read) for record, read in decoded]
        return saga_of(key, decoded, self.log.choreography)

    async def _events(self, key: str) -> list[Record]:
        """Return the events of a saga that can be read: a damaged one takes no page away, and the overview names it."""
        found = list[Record]()
        for place in self.index.events_of(key):
            with suppress(DamagedRecord):
                if (record := await self.record(*place)) is not None:
                    found.append(record)
        return found

    async def histories(self, saga: Saga) -> Sequence[KeyHistory]:
        """Return what each decider with the saga's own key did with it. Raises: ContractError and the like."""
        known = self._histories.get(saga.key)
        if known is not None and known[0] == len(saga.events):
            self._histories.move_to_end(saga.key)
            return known[1]
        # Whatever the clocks outside are: a service's event has the time of the transaction that handled its cause.
        is_handled = any(event.record.source for event in saga.events)
        since_ms = saga.events[0].record.timestamp_ms if is_handled else None
        async with self._reading:  # one at a time: each reads partitions from the saga's beginning on
            own = {event.record.type for event in saga.events if key_text(event.record) == saga.key}
            contracts = [contract_of(each) for each in self.log.choreography.events]
            fields = {each.key for each in contracts if each.type in own}
            found = list[KeyHistory]()
            for decider in self.log.choreography.deciders:
                if decider.key in fields:
                    try:
                        found.append(await key_history(self.log, decider, saga.key, since_ms=since_ms))
                    except UnknownKey:
                        continue
        self._histories[saga.key] = len(saga.events), found
        while len(self._histories) > _HISTORIES:
            self._histories.popitem(last=False)
        return found

    async def record(self, topic: str, partition: int, offset: int) -> Record | None:
        """Return a record of the log; None when there is none at that place."""
        there = await self.log.port.topics()
        if topic not in there or not 0 <= partition < there[topic].partitions or offset < 0:
            return None
        records = await self.log.port.read(topic, partition, offset, 1)
        return records[0] if records and records[0].offset == offset else None

    async def trace_of(self, saga: Saga) -> str | None:
        """Return the id of the trace that a saga is in; None when it is in none, or none is recorded of it."""
        record = await self.record(*saga.events[0].record.location)  # the index leaves trace contexts out
        return (
            record.traceparent[3:35]
            if record is not None and record.traceparent and is_sampled(record.traceparent)
            else None
        )


class StatusWatch:
    """The status of the services, read once for all who look within a second."""

    def __init__(self, log: EventLog, state_dir: str) -> None:
        self._reader = StatusReader(log, with_stores=False, state_dir=state_dir)
        self._status: Status | None = None
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def status(self, *, fresh: bool = False) -> Status:
        """Return the status as it is, or was a second ago; `fresh`: as it is. Raises: LogUnavailable and the like."""
        asked_at = monotonic()
        async with self._reading:
            oldest = asked_at if fresh else asked_at - _FRESH_S
            if self._status is None or self._read_at < oldest:
                now = monotonic()
                self._status = await self._reader.read()
                self._read_at = now
            return self._status

    async def parked(self) -> Sequence[Parking]:
        """Return what is parked now, the oldest first."""
        return (await self.status(fresh=True)).parked


async def records_to_go(projection: Projection) -> int:
    """Return how many records of the log an index has not taken in; 0 while the log does not tell where it ends."""
    try:
        positions, ends = projection.positions, await projection.ends()
    except LogUnavailable:  # before the services have made their topics, or while it is away
        return 0
    return sum(max(0, end - positions.get(place, 0)) for place, end in ends.items())


async def records_behind(projection: Projection) -> int:
    """Return as `records_to_go` does, after waiting a moment for the last few."""
    behind = await records_to_go(projection)
    return 0 if 0 < behind <= _SOON and await projection.caught_up(_SOON_S) else behind


def as_seen(value: Any, *, personal: bool) -> Any:
    """Return an event or a state, or None, as a caller may see it."""
    return value if personal or value is None else masked(value)


_STREAMS = 24
_PAUSE_S = 1.0
_HEARTBEAT_S = 15
_JUDGED_AGAIN_S = 300.0


def live_routes(search: SagaSearch) -> APIRouter:
    """Return the streams: of the whole log, and of one saga. Each ends after five minutes, and its caller is judged again."""
    routes = APIRouter()
    streams = OpenStreams(_STREAMS)

    def streamed(request: Request, events: AsyncIterator[ServerSentEvent]) -> Response:
        streams.refuse_over_limit(request.scope)
        found = CountedStream(events, ping=_HEARTBEAT_S)
        found.streams = streams
        return found

    @routes.get("/live")
    @allow(*READERS)
    async def live(request: Request) -> Response:
        return streamed(request, _of_log(search))

    @routes.get(f"/live/{KEY}")
    @allow(*READERS)
    async def live_saga(request: Request, key: str) -> Response:
        return streamed(request, _of_saga(search, key))

    return routes


async def _of_log(search: SagaSearch) -> AsyncIterator[ServerSentEvent]:
    until, seen = monotonic() + _JUDGED_AGAIN_S, dict(search.positions)
    while monotonic() < until:
        await asyncio.sleep(_PAUSE_S)
        if search.error is not None:
            return
        now = dict(search.positions)
        if now != seen:
            seen = now
            yield ServerSentEvent(data="", event="changed")


async def _of_saga(index: SagaSearch, key: str) -> AsyncIterator[ServerSentEvent]:
    until = monotonic() + _JUDGED_AGAIN_S
    seen = _newest(index, key)
    try:
        while (left_s := until - monotonic()) > 0:
            if await index.until(key, lambda: _newest(index, key) > seen, min(left_s, _HEARTBEAT_S)):  # noqa: B023  awaited before it changes
                seen = _newest(index, key)
                yield ServerSentEvent(data="", event="changed")
                await asyncio.sleep(_PAUSE_S)
    except EventlibError:
        return


def _newest(index: SagaSearch, key: str) -> int:
    """Return the number of events of a saga."""
    return len(index.events_of(key))
