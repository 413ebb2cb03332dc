"""Whether this process is well, whether it can serve, and its figures."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Response

from eventlib import RetryableError
from services.order.http import models
from services.order.http.config import ApiConfig
from services.order.http.desk import Desk
from services.order.http.metrics import Metrics
from services.order.http.problems import documented, index_behind, try_later
from services.order.http.streaming import Streaming
from services.order.index import OrderIndex

_RETRY_S = 0.2
_FOR_EVER_S = 10.0**9
_ASK_S = 1.0


class Health:
    """What this process knows of itself."""

    def __init__(
        self, index: OrderIndex, desk: Desk, streaming: Streaming, config: ApiConfig, metrics: Metrics
    ) -> None:
        self._index = index
        self._desk = desk
        self._streaming = streaming
        self._config = config
        self._metrics = metrics
        self._is_current = False

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Learn when the index has caught up with the log."""
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def current(self) -> None:
        """Let only those pass who find an index that holds the log. Raises: Refusal."""
        self.alive()
        if not self._is_current:
            raise try_later("index-not-ready", "the index is being made from the log; it can be asked when it is done")

    def alive(self) -> None:
        """Refuse when something has ended the index for good. Raises: Refusal."""
        if self._index.error is not None:
            raise try_later("index-failed", "the index has failed; the process has to be started again")

    async def ready(self) -> None:
        """Refuse as long as requests could not be served. Raises: Refusal, LogUnavailable, TimeoutError."""
        await self.current()
        if not await self._index.is_younger(self._config.index_age_s, _ASK_S):
            raise index_behind(self._config.index_age_s)
        async with asyncio.timeout(_ASK_S):
            await self._desk.backlog()

    async def figures(self) -> str:
        """Return the figures of now."""
        index = self._index
        try:
            async with asyncio.timeout(_ASK_S):
                ends = await index.ends()
                behind = sum(max(0, end - index.positions.get(place, 0)) for place, end in ends.items())
                backlog: float = await self._desk.backlog()
                reachable = 1
        except (RetryableError, TimeoutError):
            behind, backlog, reachable = -1, -1, 0
        return self._metrics.text(
            {
                "log_reachable": ("Whether the log could be read just now.", reachable),
                "backlog": ("Requests that wait for the order service; -1: unknown.", backlog),
                "index_behind": ("Records that the index has not read yet; -1: unknown.", behind),
                "index_age_seconds": ("All that was on the log so long ago is in the index.", await index.age_s()),
                "index_damaged": (
                    "Records that are damaged on the log, and so are not in the index.",
                    len(index.damaged),
                ),
                "index_ready": ("Whether the index holds the log.", self._is_current),
                "streams_open": ("Event streams that are open.", self._streaming.open),
            }
        )

    async def _watch(self) -> None:
        while not self._is_current:
            try:
                self._is_current = await self._index.caught_up(_FOR_EVER_S)
            except RetryableError:
                await asyncio.sleep(_RETRY_S)


def health_routes(health: Health) -> APIRouter:
    """Return the operations that machines ask."""
    routes = APIRouter(tags=["operation"])

    @routes.get("/healthz", response_model=models.Health, responses=documented(503), summary="Is it alive?")
    async def healthz() -> models.Health:
        """Say whether the process is well; if not, it has to be started again."""
        health.alive()
        return models.Health()

    @routes.get("/readyz", response_model=models.Health, responses=documented(503), summary="Can it serve?")
    async def readyz() -> models.Health:
        """Say whether requests can be served: the index is young enough, and the log is within reach."""
        await health.ready()
        return models.Health()

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Figures."}},
        summary="Figures for Prometheus",
    )
    async def metrics() -> Response:
        """Return what this process has answered, what waits, and how far the index has come."""
        return Response(await health.figures(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
