"""The page of the choreography: the picture that `eventlib graph` draws, with what was counted on the log so far."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.analysis.connectors import Connector
from eventlib.analysis.diagram.building import picture
from eventlib.analysis.diagram.model import Arrow, Picture
from eventlib.analysis.diagram.svg import svg
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.ground.tasks import cancelled
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, allow
from eventlib.operations.edge_traffic import Passages, TrafficCounter
from eventlib.queries.decoding import event_topics, event_topics_there
from eventlib.queries.stream import tail
from eventlib.search.saga_search import SagaSearch

End = Annotated[str, Query(max_length=300)]
_FIRST_S = 0.2
"""How long the first look waits for counts to show."""
_WAITS_S = 1.0
_KEPT = 20
"""How many events are kept of each arrow, of the newest and of the slowest each."""


class TrafficWatch:
    """Counts the traffic of a log from its beginning, and goes on counting; it begins with the first look."""

    def __init__(self, log: EventLog, connectors: Sequence[Connector] = ()) -> None:
        self._log = log
        self._picture = picture(log.choreography, connectors)
        self._counter = TrafficCounter(log.choreography, most_passages=_KEPT)
        self._counting: asyncio.Task[None] | None = None
        self._shown = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stop counting at the end."""
        try:
            yield
        finally:
            await cancelled(self._counting)

    async def picture(self) -> tuple[Picture, bool]:
        """Return the picture with what was counted so far, and whether more was counted since the last look."""
        if self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="console-traffic")
            await asyncio.sleep(_FIRST_S)
        found = self._counter.done()
        about = f"{found.total:,} events counted so far; p99 from cause to event, exact to 1%"
        has_grown, self._shown = found.total != self._shown or not found.total, found.total
        return self._picture.counted(about, found.counts, found.arrows), has_grown

    async def passages(self, source: str, target: str) -> Passages | None:
        """Return the events along an arrow that were counted so far; None for none."""
        await self.picture()
        return self._counter.passages.get((source, target))

    async def _count(self) -> None:
        counted, wanted = set[str](), {topic.name for topic in event_topics(self._log)}
        async with asyncio.TaskGroup() as counting:
            while counted != wanted:
                with suppress(RetryableError):
                    made = {topic.name for topic in await event_topics_there(self._log)} - counted
                    if made:
                        counting.create_task(self._count_in(sorted(made)))
                    counted |= made
                await asyncio.sleep(_WAITS_S)  # other processes make the topics that are lacking

    async def _count_in(self, topics: Sequence[str]) -> None:
        with suppress(RetryableError):  # what was counted stays; a process that is started again counts on
            async with aclosing(tail(self._log.port, topics, follow=True)) as batches:
                async for records in batches:
                    for record in records:
                        self._counter.take(record, self._log.external.type_of(record))
                    await asyncio.sleep(0)


def choreography_routes(pages: Pages, watch: TrafficWatch, search: SagaSearch) -> APIRouter:
    """Return the routes of the choreography, and of each of its arrows."""
    routes = APIRouter()

    @routes.get("/choreography")
    @allow(*READERS)
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
            drawing=svg(found, styled=False, link=lambda arrow: _link(found, arrow)),
            arrows=sorted(arrows, key=lambda each: -(each[3].count if each[3] else 0)),
            link=lambda arrow: _link(found, arrow),
            has_grown=has_grown,
            whole=whole,
            subtitle=found.subtitle,
        )

    @routes.get("/choreography/arrow")
    @allow(*READERS)
    async def arrow(request: Request, source: End, target: End) -> Response:
        found, _ = await watch.picture()
        shown = next((each for each in found.arrows if (each.source, each.target) == (source, target)), None)
        if shown is None:
            raise Refusal(404, "unknown-arrow", f"nothing leads from {source} to {target} in this choreography")
        names = {node.id: node.label for node in found.nodes}
        passages = await watch.passages(source, target) or Passages(0)
        return pages.render(
            request,
            "arrow.html",
            names=(names[source], names[target]),
            arrow=shown,
            traffic=(found.traffic or {}).get((source, target)),
            slowest=[(each, search.of_correlation(each.correlation_id)) for each in passages.slowest],
            newest=[(each, search.of_correlation(each.correlation_id)) for each in reversed(passages.newest)],
        )

    return routes


def _link(shown: Picture, arrow: Arrow) -> str | None:
    """Return the address of an arrow along which events were counted; none of one that leads to who only listens."""
    ways = {node.id for node in shown.nodes if node.kind == "listener"}
    if arrow.target in ways or (arrow.source, arrow.target) not in (shown.traffic or {}):
        return None
    return path_of("choreography", "arrow", source=arrow.source, target=arrow.target)
