"""The page of sagas: found by one text or a query, by filters that are links, page by page, and as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from eventlib.console.forms import OwnForm
from eventlib.console.reading import records_to_go
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError, EventlibError
from eventlib.ground.arguments import did_you_mean
from eventlib.http.gate import Caller
from eventlib.identity.principal import READERS, Role, allow
from eventlib.index.attributes import Attribute, declared_in
from eventlib.operations.saga_acts import MOST_SAGAS
from eventlib.operations.saga_filters import NEWEST, SagaFilter, SagaFilters
from eventlib.search.completion import completed
from eventlib.search.language import QueryError
from eventlib.search.meanings import bare_text, meanings
from eventlib.search.saga_file import Form, saga_file
from eventlib.search.saga_search import SagaPage, SagaQuery, SagaSearch
from eventlib.search.words import find_word
from eventlib.values import decimals_of

_MOST_COUNTED = 1_000
_OLD_MS = 10_000
_COUNTED_S = 0.05
_SEARCHED_S = 0.1
"""How long a page looks for sagas that few meet; the next one goes on."""
_WORDS_S, _MORE_WORDS_S, _MOST_WORDS = 0.3, 2.0, 50
"""How long payloads are looked at for a word: at first, and when older ones are asked for."""
_FEW = 5
_FORMS = {"csv": "text/csv", "json": "application/json", "txt": "text/plain"}
_FILTERS_S = 2.0
_LIMIT = 50
_LIMITS = (25, 50, 100, 200)

SAVED = (
    SagaFilter("All", ""),
    SagaFilter("Open", "status != 'ended'"),
    SagaFilter("Overdue", "status = 'overdue'", "started_at asc"),
    SagaFilter("Parked", "waiting_kind = 'parked'", "started_at asc"),
    SagaFilter("Waits for an effect", "waiting_kind = 'effect'", "started_at asc"),
    SagaFilter("Open for an hour", "status != 'ended' and age > 1h", "started_at asc"),
    SagaFilter("Compensated", "compensations > 0"),
    SagaFilter("Failed", "failures > 0"),
)
"""The filters of every console; a team has its own beside them on the log, and a browser in itself."""
Text = Annotated[str, Query(max_length=4_000)]
Order = Annotated[str, Query(max_length=100)]
Names = Annotated[list[str] | None, Query(max_length=100)]


class SagaList:
    """Answers the page of sagas from an index."""

    def __init__(self, search: SagaSearch) -> None:
        self.search = search
        self.columns = Columns(search)
        self.filters = SagaFilters(search.log)
        self._shared: tuple[float, Sequence[SagaFilter]] = float("-inf"), ()

    async def behind(self, page: SagaPage) -> int:
        """Return how many records of the log are not in a page that is old; 0 for one that is as new as it can be."""
        return 0 if page.staleness_ms < _OLD_MS else await records_to_go(self.search)

    def counted(self, where: str) -> str:
        """Return how many sagas a query finds; of many, that they are many. Raises: QueryError."""
        count, more = self.search.count(where, most=_MOST_COUNTED, within_s=_COUNTED_S)
        return f"{count:,}+" if more else f"{count:,}"

    async def shared(self) -> Sequence[SagaFilter]:
        """Return the team's filters, as they are or were a moment ago. Raises: EventlibError."""
        if monotonic() - self._shared[0] > _FILTERS_S:
            self._shared = monotonic(), [*(await self.filters.all()).values()]
        return self._shared[1]

    async def change(self, form: OwnForm, by: str) -> SagaFilter:
        """Save, rename or delete a filter of the team, and return what the list shows then. Raises: ContractError."""
        name, to = form.get("name").strip(), form.get("to").strip()
        content = SagaFilter(to, form.get("where"), form.get("order_by") or NEWEST, tuple(form.all("column")))
        match form.get("step"):
            case "rename":
                await self.filters.rename(name, to, by)
            case "delete":
                await self.filters.delete(name, by)
            case _:
                await self.filters.save(content, by)
        self._shared = float("-inf"), ()
        return content

    async def found(self, query: SagaQuery, text: str | None) -> dict[str, Any]:
        """Return what a query finds; of a bare text, what it finds by each of its meanings. Raises: ContractError."""
        if text is None:
            page = await self.search.full_page(query, _SEARCHED_S)
            return {"page": page, "behind": await self.behind(page)}
        by_meaning = [
            (each, (await self.search.full_page(replace(query, where=each.where, limit=_FEW), _COUNTED_S)).sagas)
            for each in meanings(self.search, text)
        ]
        return {"meanings": by_meaning}


def saga_list_routes(pages: Pages, sagas: SagaList) -> APIRouter:
    """Return the routes of the list of sagas."""
    routes = APIRouter()

    @routes.get("/sagas")
    @allow(*READERS)
    async def list_(  # noqa: PLR0913, PLR0917  what the address has
        request: Request,
        where: Text = "",
        order_by: Order = NEWEST,
        limit: Annotated[int, Query(ge=1, le=_LIMITS[-1])] = _LIMIT,
        after: Annotated[str | None, Query(max_length=2_000)] = None,
        column: Names = None,
        text: Text = "",
    ) -> Response:
        query, bare = SagaQuery(where, order_by, limit, after or None), bare_text(sagas.search, where)
        content: dict[str, Any] = {"columns": [], "wrong": None, "page": None, "meanings": None, "behind": 0}
        try:
            content["columns"] = sagas.columns.chosen(column or [], query)
            content |= await sagas.found(query, bare)
        except ContractError as error:
            content["wrong"] = _wrong(query, error)
        if bare is not None and content["meanings"] and len(content["meanings"]) == 1:
            ((only, _),) = content["meanings"]
            asked = {"where": only.where, "order_by": order_by, "limit": limit, "column": column, "text": bare}
            return RedirectResponse(path_of("sagas", **asked), 303)
        content |= {"query": query, "text": text or bare, "chosen": column or [], "saved": SAVED, "limits": _LIMITS}
        return await _shown(request, pages, sagas, content, 422 if content["wrong"] else 200)

    @routes.get("/sagas/count")
    @allow(*READERS)
    async def count(request: Request, where: Text = "") -> Response:
        try:
            found = sagas.counted(where)
        except ContractError:
            found = "?"
        return pages.render(request, "count.html", count=found)

    @routes.get("/sagas/complete")
    @allow(*READERS)
    async def complete(text: Text = "") -> dict[str, Any]:
        kept, options = completed(sagas.search, text)
        return {"kept": kept, "options": [{"text": each.text, "about": each.about} for each in options]}

    @routes.get("/sagas/words")
    @allow(*READERS)
    async def words(
        request: Request,
        text: Annotated[str, Query(min_length=1, max_length=200)],
        before: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
    ) -> Response:
        within_s = _WORDS_S if before is None else _MORE_WORDS_S
        page = await find_word(sagas.search, text, before, within_s, _MOST_WORDS)
        return pages.render(request, "words.html", text=text, page=page)

    @routes.get("/sagas/export.{form}")
    @allow(*READERS)
    async def export(form: Form, where: Text = "", order_by: Order = NEWEST, column: Names = None) -> Response:
        query = SagaQuery(where, order_by)
        attributes = [each.attribute for each in sagas.columns.chosen(column or [], query)]
        parts = await saga_file(sagas.search, query, attributes, form)
        headers = {"content-disposition": f'attachment; filename="sagas.{form}"'}
        return StreamingResponse(parts, media_type=f"{_FORMS[form]}; charset=utf-8", headers=headers)

    @routes.post("/sagas/filters")
    @allow(Role.OPERATOR)
    async def filters(form: OwnForm, caller: Caller) -> Response:
        content = await sagas.change(form, caller.by)
        asked = {"where": content.where, "order_by": content.order_by, "column": content.columns}
        return RedirectResponse(path_of("sagas", **asked), 303)

    return routes


async def _shown(request: Request, pages: Pages, sagas: SagaList, content: dict[str, Any], status: int) -> Response:
    try:
        content |= {"shared": await sagas.shared(), "unread": ""}
    except EventlibError as error:  # the index answers while the log does not
        content |= {"shared": (), "unread": str(error)}
    about = {"attributes": [*sagas.search.catalogue], "all_columns": sagas.columns, "most_acts": MOST_SAGAS}
    return pages.render(request, "sagas.html", status, **content, **about)


def _wrong(query: SagaQuery, error: ContractError) -> dict[str, str]:
    if not isinstance(error, QueryError):
        return {"sentence": str(error), "before": "", "at": ""}
    text = query.where if error.part == "where" else query.order_by
    at = max(0, error.column - 1)
    return {"sentence": error.sentence, "before": text[:at], "at": text[at:] or " "}


_USUAL = ("status", "waiting_for", "reason", "started_at", "duration", "steps")
_HEADS = {"waiting_for": "Waits for", "started_at": "Started", "duration": "Took", "steps": "Events"}
_NUMBERS = {"integer", "number", "decimal", "duration"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its attribute, its head for people, where a click on that leads, and the order that it has now."""

    attribute: Attribute
    link: str = ""
    direction: str = ""

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.attribute.name

    @property
    def head(self) -> str:
        """The name as people read it, without the `_cents` of an amount, which is shown as money."""
        name = self.name.removesuffix("_cents") if self.attribute.currency else self.name
        return _HEADS.get(self.name, name.replace("_", " ").capitalize())

    @property
    def is_number(self) -> bool:
        """Whether its values are aligned by their last digits."""
        return self.attribute.kind.type in _NUMBERS

    def money(self, saga: Mapping[str, Any]) -> str:
        """Return a saga's amount with its currency, with as many decimals as ISO 4217 says."""
        amount, currency = saga[self.name], saga[self.attribute.currency]
        if amount is None or currency is None:
            return "–" if amount is None else f"{amount:,}"  # noqa: RUF001  a dash for what is not there
        decimals = decimals_of(currency)
        if self.attribute.kind.type == "integer":
            return f"{Decimal(amount).scaleb(-decimals):,.{decimals}f} {currency}"
        own = -int(Decimal(amount).normalize().as_tuple().exponent)
        return f"{amount:,.{max(decimals, own)}f} {currency}"


class Columns:
    """The columns that a list of sagas can have: each attribute with one value, and what a saga waits for."""

    def __init__(self, search: SagaSearch) -> None:
        self.known = {
            each.name: each
            for each in search.catalogue
            if each.name != "saga" and (not each.of or each.name == "waiting_for")
        }
        declared = [name for name in declared_in(search.log.choreography) if name in self.known]
        currencies = {each.currency for each in self.known.values()}
        self.usual = (*_USUAL, *(name for name in declared if name not in currencies))

    def chosen(self, names: Sequence[str], query: SagaQuery) -> list[Column]:
        """Return the columns of these names, by default the usual ones. Raises: ContractError for an unknown name."""
        for name in names:
            if name not in self.known:
                raise ContractError(
                    f"the list has not the column {name!r}: {did_you_mean(name, self.known)}see Columns"
                )
        by, _, direction = query.order_by.partition(" ")
        columns = list[Column]()
        for name in dict.fromkeys(names or self.usual):
            attribute = self.known[name]
            other = "asc" if name == by and direction == "desc" else "desc"
            order = {"where": query.where, "order_by": f"{name} {other}", "limit": query.limit, "column": [*names]}
            now = ("descending" if direction == "desc" else "ascending") if name == by else ""
            columns.append(Column(attribute, path_of("sagas", **order) if attribute.index else "", now))
        return columns
