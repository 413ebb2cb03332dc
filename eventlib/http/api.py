"""An HTTP API on an index of sagas: what each such API has, beside the operations that are its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Generic, Literal, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Response
from pydantic import BaseModel

from eventlib.errors import RetryableError
from eventlib.ground.arguments import check
from eventlib.ground.tasks import cancelled
from eventlib.http.config import ApiConfig
from eventlib.http.docs import serve_docs
from eventlib.http.gate import guard
from eventlib.http.problems import answer_problems, documented, index_behind, try_later
from eventlib.http.rate_limit import MeteredRoute, RateLimits
from eventlib.http.reads import Reads
from eventlib.http.requests import Accepted, Requests
from eventlib.http.resource import resource_routes
from eventlib.http.saga_events import SagaEvents
from eventlib.http.saga_list import SagaQueries, saga_routes
from eventlib.http.traffic import Limits, Metrics
from eventlib.identity.identity import Identity, identity_of
from eventlib.identity.principal import METRICS_READERS, Principal, Role, allow, public
from eventlib.model.event import Event, contract_of
from eventlib.queries.saga_index import SagaIndex
from eventlib.search.saga_search import SagaSearch

R = TypeVar("R", bound=Event)
_RETRY_S = 0.2
_FOR_EVER_S = 10.0**9
_ASK_S = 1.0


class SagaApi(Generic[R]):
    """A FastAPI app (`app`) on an index, which it opens and closes with its lifespan.

    Sagas begin with `request`. `resource` has the usual operations. Add your own to its routes, or to `routes()`, made of `requests` (once, by Idempotency-Key), `reads` (positions,
    ages, `Prefer: wait`) and `events` (timelines, streams). The app has `/healthz`, `/readyz`, `/metrics` and `/docs`,
    answers errors as problems of the types `urn:<name>:problem:…`, and refuses bodies that are too large.
    Each operation declares who may call it (`@allow(Role.SHOP)`, `@public`); `identity` is by default that of the settings.
    `has_ended` returns whether the saga of a key is over; by default it is when one of its events is final. With `search` operators and auditors find sagas by `GET /sagas`; that
    index is opened by the first query. Metrics are exported as `<name>_…`, those of requests as
    `<name>_<counted_as>_accepted_total` and the like; `counted_as` is by default the name.
    Guarantee: what was answered with 202 by `requests` is durable.
    """

    def __init__(  # noqa: PLR0913  what an API is made of
        self,
        index: SagaIndex[Any],
        request: type[R],
        *,
        name: str,
        counted_as: str | None = None,
        has_ended: Callable[[str], bool] | None = None,
        config: ApiConfig | None = None,
        identity: Identity | None = None,
        search: SagaSearch | None = None,
        **about: Any,
    ) -> None:
        check(index, SagaIndex, "index", "give the index: `SagaIndex(log, orders)`")
        self.index = index
        self.config = config = config or ApiConfig()
        self.identity = identity or identity_of()
        self.metrics = Metrics(name)
        self.requests = Requests(index, request, config, self.metrics, counted_as or name)
        self.reads = Reads(index, self.requests.topic, config)
        self.events = SagaEvents(index, request, has_ended or self._has_ended, config)
        self._queries = None if search is None else SagaQueries(search, config)
        self._is_current = False
        self._finals = {contract.type for contract in map(contract_of, index.log.choreography.events) if contract.final}
        self.app = FastAPI(lifespan=self._lifespan, docs_url=None, redoc_url=None, **about)
        serve_docs(self.app)
        answer_problems(self.app, f"urn:{name}:problem:")
        if config.work_rate:
            self.app.state.rate_limits = RateLimits(config.work_rate, config.work_burst)
        guard(self.app, self.identity)
        self.app.add_middleware(Limits, body_bytes=config.body_bytes, metrics=self.metrics)

    def resource(
        self,
        path: str,
        requested: Callable[[str, Any], R],
        shown: Callable[[Any], BaseModel],
        *,
        may_ask: Iterable[Role] = (Role.SHOP,),
        may_read: Iterable[Role] = (Role.SHOP,),
    ) -> APIRouter:
        """Return routes to begin a saga (`POST path`), read its state (`GET path/KEY`) and watch it (`GET path/KEY/events`).

        `requested` makes the request of a saga's key and the body, whose model is its annotation; `shown` makes of a state the
        model that is read. Guarantee: one Idempotency-Key of a caller leads to one saga. Raises: WiringError without models.
        """
        return resource_routes(self, path, requested, shown, (tuple(may_ask), tuple(may_read)))

    async def submit(
        self,
        body: BaseModel,
        idempotency_key: str | None,
        caller: Principal,
        make: Callable[[str], Awaitable[R | Accepted[R]]],
        *,
        work: int = 1,
    ) -> Accepted[R]:
        """Accept a request once under the caller's own key, wait for its decision, and return what counts, decided or not.

        `make` makes the request of its saga's key, or returns what it finds accepted meanwhile; `work` is as in
        `Requests.accept`. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        requests = self.requests
        if idempotency_key is not None:
            idempotency_key = await requests.unexpired(self.identity.scoped(caller, idempotency_key))
        key = requests.key_for(idempotency_key)
        if (repeated := await requests.repeated(key, body)) is not None:
            return repeated
        await requests.refuse_over_backlog(work)
        request = await make(key)
        if isinstance(request, Accepted):
            return request
        return await requests.accept(request, body, idempotency_key, work=work, caller=caller)

    def _has_ended(self, key: str) -> bool:
        return any(record.type in self._finals for _, record in self.index.events(key))

    def routes(self, tag: str) -> APIRouter:
        """Return a router for operations: strict JSON, metered, refused until the index holds the log. Give it to `include`."""
        return APIRouter(tags=[tag], route_class=MeteredRoute, dependencies=[Depends(self.refuse_until_current)])

    def include(self, *routes: APIRouter) -> FastAPI:
        """Return the app, with these operations and those that machines ask."""
        found = [] if self._queries is None else [saga_routes(self._queries)]
        for each in (*routes, *found, self._operation_routes()):
            self.app.include_router(each)
        return self.app

    async def refuse_until_current(self) -> None:
        """Let only those pass who find an index that holds the log. Raises: Refusal."""
        self._refuse_if_failed()
        if not self._is_current:
            raise try_later("index-not-ready", "the index is being made from the log; it can be asked when it is done")

    def _refuse_if_failed(self) -> None:
        if self.index.error is not None:
            raise try_later("index-failed", "the index has failed; the process has to be started again")

    @asynccontextmanager
    async def _lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        async with self.index:
            watch = asyncio.create_task(self._watch())
            try:
                yield
            finally:
                await cancelled(watch)
                if self._queries is not None:
                    await self._queries.close()

    async def _watch(self) -> None:
        """Learn when the index has caught up with the log."""
        while not self._is_current:
            try:
                self._is_current = await self.index.caught_up(_FOR_EVER_S)
            except RetryableError:
                await asyncio.sleep(_RETRY_S)

    async def _refuse_unless_ready(self) -> None:
        """Refuse as long as requests could not be served. Raises: Refusal, LogUnavailable, TimeoutError."""
        await self.refuse_until_current()
        if not await self.index.is_younger(self.config.index_age_s, _ASK_S):
            raise index_behind(self.config.index_age_s)
        async with asyncio.timeout(_ASK_S):
            await self.requests.backlog()

    async def _figures(self) -> str:
        index = self.index
        try:
            async with asyncio.timeout(_ASK_S):
                ends = await index.ends()
                behind = sum(max(0, end - index.positions.get(place, 0)) for place, end in ends.items())
                backlog: float = await self.requests.backlog()
                reachable = 1
        except (RetryableError, TimeoutError):
            behind, backlog, reachable = -1, -1, 0
        return self.metrics.text(
            {
                "log_reachable": ("Whether the log could be read just now.", reachable),
                "backlog": ("Work that waits for the service, a small request is 1; -1: unknown.", backlog),
                "index_behind": ("Records that the index has not read yet; -1: unknown.", behind),
                "index_age_seconds": ("All that was on the log so long ago is in the index.", await index.age_s()),
                "index_damaged": (
                    "Records that are damaged on the log, and so are not in the index.",
                    len(index.damaged),
                ),
                "index_ready": ("Whether the index holds the log.", self._is_current),
                "streams_open": ("Event streams that are open.", self.events.open),
            }
        )

    def _operation_routes(self) -> APIRouter:
        routes = APIRouter(tags=["operation"])

        @routes.get("/healthz", responses=documented(503), summary="Is it alive?")
        @public
        async def healthz() -> Health:
            """Say whether the process is well; if not, it has to be started again."""
            self._refuse_if_failed()
            return Health()

        @routes.get("/readyz", responses=documented(503), summary="Can it serve?")
        @public
        async def readyz() -> Health:
            """Say whether requests can be served: the index is young enough, and the log is within reach."""
            await self._refuse_unless_ready()
            return Health()

        @routes.get(
            "/metrics",
            response_class=Response,
            responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Figures."}},
            summary="Figures for Prometheus",
        )
        @allow(*METRICS_READERS)
        async def metrics() -> Response:
            """Return what this process has answered, what waits, and how far the index has come."""
            return Response(await self._figures(), media_type="text/plain; version=0.0.4; charset=utf-8")

        return routes


class Health(BaseModel):
    """Whether all is well."""

    status: Literal["ok"] = "ok"
