"""Sagas over HTTP, found by a query; for operators and auditors."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from eventlib.errors import ContractError
from eventlib.http.config import ApiConfig
from eventlib.http.problems import FieldError, Refusal, documented, index_behind, refused_field, try_later
from eventlib.http.rate_limit import MeteredRoute
from eventlib.identity.principal import READERS, allow
from eventlib.search.language import QueryError
from eventlib.search.saga_search import SagaPage, SagaQuery, SagaSearch

_WAITS_S = 1.0
_MOST = 200
_WHERE = """For instance `country = 'France' and status = 'open' and amount_cents > 10000 and waiting_for = 'gateway'`.
Compare by =, !=, <, <=, >, >=, in (…), between … and …, like '%…%', is null; join by and, or, not. Texts and times stand
in '…', durations are 90s, 15m, 2h, 1.5d. What can be named is in the answer to a query that names something else."""


class SagaWait(BaseModel):
    """One thing that a saga waits for: an effect, a deadline, or the repair of what is parked."""

    kind: str = Field(description="`effect`, `deadline` or `parked`.")
    name: str
    service: str
    decider: str
    since: datetime
    due_at: datetime | None
    reason: str | None
    command: str | None = Field(None, description="The command that lets an effect of the past run.")


class FoundSaga(BaseModel, extra="allow"):
    """One saga; its declared attributes are further members. Times are UTC."""

    saga: str
    status: str = Field(description="`open`, `overdue` or `ended`.")
    state: str | None
    outcome: str
    reason: str | None
    started_at: datetime
    last_at: datetime
    ended_at: datetime | None
    overdue_at: datetime | None
    age_ms: int
    duration_ms: int | None
    steps: int
    failures: int
    compensations: int
    waits: list[SagaWait]


class SagaList(BaseModel):
    """Sagas in the order that was asked for; `next` leads on, and is null at the end.

    A page may have fewer sagas than its limit, also none, and be followed by more. All that was on the log
    `staleness_ms` ago is in it, but for `damaged` records. `position`: the next offset that was not read, by topic and
    partition.
    """

    sagas: list[FoundSaga]
    next: str | None
    staleness_ms: int
    damaged: int
    position: Mapping[str, int]

    @classmethod
    def of(cls, page: SagaPage) -> Self:
        """Return a page as it is answered."""
        return cls(
            sagas=[FoundSaga.model_validate(each) for each in page.sagas],
            next=page.next,
            staleness_ms=page.staleness_ms,
            damaged=page.damaged,
            position=page.position,
        )


class SagaQueries:
    """Answers queries of sagas from an index that is opened by the first of them: an API without any pays nothing."""

    def __init__(self, search: SagaSearch, config: ApiConfig) -> None:
        self._search = search
        self._config = config
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._is_open = self._is_current = False

    async def close(self) -> None:
        """Close the index, if a query has opened it."""
        await self._stack.aclose()

    async def page(self, query: SagaQuery) -> SagaPage:
        """Return a page. Raises: Refusal, also while the index is made from the log, or is too old."""
        await self._refuse_until_current()
        if not await self._search.is_younger(self._config.index_age_s, self._config.decision_s):
            raise index_behind(self._config.index_age_s)
        try:
            return await self._search.page(query)
        except QueryError as error:
            wrong = FieldError(place="query", field=error.part, message=error.sentence)
            sentence = f"query {error.part}, {error}"
            raise Refusal(422, "invalid", sentence, errors=[wrong], extra={"column": error.column}) from error
        except ContractError as error:
            raise refused_field("query", "after", str(error)) from error

    async def _refuse_until_current(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._stack.enter_async_context(self._search)
                self._is_open = True
        if self._search.error is not None:
            raise try_later("index-failed", "the index of sagas has failed; the process has to be started again")
        if not self._is_current:
            self._is_current = await self._search.caught_up(_WAITS_S)
        if not self._is_current:
            raise try_later("index-not-ready", "the index of sagas is being made from the log: ask again")


def saga_routes(queries: SagaQueries) -> APIRouter:
    """Return `GET /sagas`."""
    routes = APIRouter(tags=["sagas"], route_class=MeteredRoute)

    @routes.get(
        "/sagas",
        response_model=None,
        responses={200: {"model": SagaList, "description": "A page."}, **documented(401, 403, 422, 429, 503)},
        summary="Find sagas",
    )
    @allow(*READERS)
    async def sagas(
        where: Annotated[str, Query(max_length=4_000, description=_WHERE, examples=["status = 'overdue'"])] = "",
        order_by: Annotated[
            str, Query(max_length=100, description="An attribute, with `asc` or `desc`.")
        ] = "started_at desc",
        limit: Annotated[int, Query(ge=1, le=_MOST)] = 50,
        after: Annotated[str | None, Query(max_length=2_000, description="`next` of the page before.")] = None,
    ) -> Response:
        """Return sagas for which a query holds."""
        page = SagaList.of(await queries.page(SagaQuery(where, order_by, limit, after)))
        return Response(page.model_dump_json(), media_type="application/json")

    return routes
