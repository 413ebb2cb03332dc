"""The page of sagas: searched in the query language, by filters that are links, page by page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.reading import records_to_go
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError
from eventlib.identity.principal import READERS, allow
from eventlib.index.attributes import KEYWORDS, Attribute, declared_in
from eventlib.search.language import QueryError
from eventlib.search.saga_search import SagaPage, SagaQuery, SagaSearch

_MOST_COUNTED = 1_000
_OLD_MS = 10_000
_COUNTED_S = 0.05
_SEARCHED_S = 0.1
"""How long a page looks for sagas that few meet; the next one goes on."""
_LIMIT = 50
_LIMITS = (25, 50, 100, 200)
_NEWEST = "started_at desc"
_BARE = re.compile(r"[^=<>!()',]+")
"""A text that is not compared with anything: a pasted key, or a value."""


@dataclass(frozen=True, slots=True)
class SavedFilter:
    """A filter under a name: a query, and the order in which its sagas are of interest."""

    name: str
    where: str
    order_by: str = _NEWEST


SAVED = (
    SavedFilter("All", ""),
    SavedFilter("Open", "status != 'ended'"),
    SavedFilter("Overdue", "status = 'overdue'", "started_at asc"),
    SavedFilter("Parked", "waiting_kind = 'parked'", "started_at asc"),
    SavedFilter("Waits for an effect", "waiting_kind = 'effect'", "started_at asc"),
    SavedFilter("Open for an hour", "status != 'ended' and age > 1h", "started_at asc"),
    SavedFilter("Compensated", "compensations > 0"),
    SavedFilter("Failed", "failures > 0"),
)
"""The filters of every user; a browser keeps its own beside them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list: its attribute, and where a click on its head leads."""

    name: str
    head: str
    link: str
    direction: str


class SagaList:
    """Answers the page of sagas from an index."""

    def __init__(self, search: SagaSearch) -> None:
        self.search = search
        self.declared = [
            each.attribute for each in declared_in(search.log.choreography).values() if not each.field.many
        ]

    async def behind(self, page: SagaPage) -> int:
        """Return how many records of the log are not in a page that is old; 0 for one that is as new as it can be."""
        return 0 if page.staleness_ms < _OLD_MS else await records_to_go(self.search)

    def meant(self, text: str) -> str | None:
        """Return the query that a text without any comparison asks for: a saga's key, or a value of what is declared.

        None for a query, and for the name of an attribute, with which one begins.
        """
        bare = text.strip()
        if (
            not _BARE.fullmatch(bare)
            or KEYWORDS.intersection(bare.split())
            or bare in {each.name for each in self.search.catalogue}
        ):
            return None
        literal = f"'{bare}'"
        key = f"saga = {literal}"
        if self._finds(key):
            return key
        names = [*declared_in(self.search.log.choreography)]
        values = [f"{name} = {value}" for name in names for value in (literal, bare)]
        return " or ".join(filter(self._finds, values)) or key

    def _finds(self, where: str) -> bool:
        try:
            return self.search.count(where, most=1, within_s=_COUNTED_S)[0] > 0
        except QueryError:  # a value of another type
            return False

    def counted(self, where: str) -> str:
        """Return how many sagas a query finds; of many, that they are many. Raises: QueryError."""
        count, more = self.search.count(where, most=_MOST_COUNTED, within_s=_COUNTED_S)
        return f"{count:,}+" if more else f"{count:,}"

    def columns(self, query: SagaQuery, attributes: Sequence[Attribute]) -> list[Column]:
        """Return the columns for attributes, with the orders that they lead to."""
        by, _, direction = query.order_by.partition(" ")
        columns = list[Column]()
        for each in attributes:
            is_by = each.name == by
            other = "asc" if is_by and direction == "desc" else "desc"
            link = (
                path_of("sagas", where=query.where, order_by=f"{each.name} {other}", limit=query.limit)
                if each.index
                else ""
            )
            head = {"saga": "Saga", "started_at": "Started", "age": "Age"}.get(each.name, each.name)
            columns.append(
                Column(each.name, head, link, ("descending" if direction == "desc" else "ascending") if is_by else "")
            )
        return columns


def saga_list_routes(pages: Pages, sagas: SagaList) -> APIRouter:
    """Return the routes of the list of sagas."""
    routes = APIRouter()

    @routes.get("/sagas")
    @allow(*READERS)
    async def list_(
        request: Request,
        where: Annotated[str, Query(max_length=4_000)] = "",
        order_by: Annotated[str, Query(max_length=100)] = _NEWEST,
        limit: Annotated[int, Query(ge=1, le=_LIMITS[-1])] = _LIMIT,
        after: Annotated[str | None, Query(max_length=2_000)] = None,
    ) -> Response:
        if (meant := sagas.meant(where)) is not None:
            return RedirectResponse(path_of("sagas", where=meant, order_by=order_by, limit=limit), 303)
        query = SagaQuery(where, order_by, limit, after or None)
        content: dict[str, Any] = {"query": query, "wrong": None, "page": None, "behind": 0}
        status = 200
        try:
            content["page"] = page = await sagas.search.full_page(query, _SEARCHED_S)
            content["behind"] = await sagas.behind(page)
        except QueryError as error:
            status, content["wrong"] = 422, _wrong(query, error)
        except ContractError as error:
            status, content["wrong"] = 422, {"sentence": str(error), "before": "", "at": ""}
        return pages.render(
            request,
            "sagas.html",
            status,
            **content,
            saved=SAVED,
            limits=_LIMITS,
            declared=sagas.declared,
            columns={each.name: each for each in sagas.columns(query, [*sagas.search.catalogue])},
            attributes=[*sagas.search.catalogue],
        )

    @routes.get("/sagas/count")
    @allow(*READERS)
    async def count(request: Request, where: Annotated[str, Query(max_length=4_000)] = "") -> Response:
        try:
            found = sagas.counted(where)
        except ContractError:
            found = "?"
        return pages.render(request, "count.html", count=found)

    return routes


def _wrong(query: SagaQuery, error: QueryError) -> Mapping[str, str]:
    text = query.where if error.part == "where" else query.order_by
    at = max(0, error.column - 1)
    return {"sentence": error.sentence, "before": text[:at], "at": text[at:] or " "}
