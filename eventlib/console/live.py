"""Tells open pages that something has happened: they then ask for what they show."""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sse_starlette import ServerSentEvent

from eventlib.errors import EventlibError
from eventlib.http.open_streams import CountedStream, OpenStreams
from eventlib.http.paths import KEY
from eventlib.identity.principal import READERS, allow
from eventlib.search.saga_search import SagaSearch

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
