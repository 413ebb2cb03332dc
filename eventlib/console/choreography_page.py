"""The page of the choreography: the picture that `eventlib graph` draws, with what was counted on the log so far."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

from fastapi import APIRouter, Request
from fastapi.responses import Response

from eventlib.analysis.diagram.model import Picture, picture
from eventlib.analysis.diagram.svg import svg
from eventlib.console.login import LOOK
from eventlib.console.rendering import Pages
from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.identity.principal import allow
from eventlib.operations.edge_traffic import TrafficCounter
from eventlib.queries.decoding import event_topics
from eventlib.queries.stream import tail

_FIRST_S = 0.2
"""How long the first look waits for counts to show."""


class TrafficWatch:
    """Counts the traffic of a log from its beginning, and goes on counting; it begins with the first look."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._counter = TrafficCounter(log.choreography)
        self._counting: asyncio.Task[None] | None = None
        self._shown = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stop counting at the end."""
        try:
            yield
        finally:
            if self._counting is not None:
                self._counting.cancel()
                await asyncio.gather(self._counting, return_exceptions=True)

    async def picture(self) -> tuple[Picture, bool]:
        """Return the picture with what was counted so far, and whether more was counted since the last look."""
        if self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="console-traffic")
            await asyncio.sleep(_FIRST_S)
        found = self._counter.done()
        about = f"{found.total:,} events counted so far; p95 from cause to event, exact to 1%"
        has_grown, self._shown = found.total != self._shown or not found.total, found.total
        return picture(self._log.choreography).counted(about, found.counts, found.arrows), has_grown

    async def _count(self) -> None:
        topics = [topic.name for topic in event_topics(self._log)]
        with suppress(RetryableError):  # what was counted stays; a process that is started again counts on
            async with aclosing(tail(self._log.port, topics, follow=True)) as batches:
                async for records in batches:
                    for record in records:
                        self._counter.take(record, self._log.external.type_of(record))
                    await asyncio.sleep(0)


def choreography_routes(pages: Pages, watch: TrafficWatch) -> APIRouter:
    """Return the route of the choreography."""
    routes = APIRouter()

    @routes.get("/choreography")
    @allow(*LOOK)
    async def choreography(request: Request, whole: bool = False) -> Response:
        found, has_grown = await watch.picture()
        traffic = found.traffic or {}
        names = {node.id: node.label for node in found.nodes}
        arrows = [
            (names[each.source], names[each.target], each, traffic.get((each.source, each.target)))
            for each in found.arrows
        ]
        return pages.render(
            request,
            "choreography.html",
            drawing=svg(found, styled=False),
            arrows=sorted(arrows, key=lambda each: -(each[3].count if each[3] else 0)),
            has_grown=has_grown,
            whole=whole,
            subtitle=found.subtitle,
        )

    return routes
