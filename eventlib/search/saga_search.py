"""The index that sagas are found by: pages of them, at a cost that does not grow with their number."""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic_core import to_json

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.index.attributes import Attribute, declared_in, saga_key
from eventlib.index.log_index import LogIndex
from eventlib.log.sqlite.errors import explained
from eventlib.model.event import contract_of
from eventlib.queries.parked import retry_command
from eventlib.queries.projection_file import WHAT
from eventlib.runtime.bootstrap import is_of_past
from eventlib.runtime.records import changelog_key
from eventlib.search.compiling import compiled, sagas_of
from eventlib.search.known_values import values_of
from eventlib.search.language import Every, QueryError, parse_order, parse_where
from eventlib.search.scan import Sort, page_of
from eventlib.values import from_ms, now_ms

MOST_LIMIT = 1_000
_SHOWN = (
    "saga", "status", "state", "outcome", "reason", "started_at", "last_at", "ended_at", "overdue_at", "age", "duration", "steps",
    "failures", "compensations",
)  # fmt: skip
_RANK = {"parked": 0, "paused": 0, "effect": 1, "deadline": 2}


@dataclass(frozen=True, slots=True)
class SagaQuery:
    """Which sagas are wanted, in which order, and how many: `where` and `order_by` in the query language.

    `after` is the `next` of the page before.
    """

    where: str = ""
    order_by: str = "started_at desc"
    limit: int = 50
    after: str | None = None


@dataclass(frozen=True, slots=True)
class SagaPage:
    """Some sagas, each with what queries can name (durations in ms) and its `waits`, and where the next page begins.

    A page may have fewer than its limit, also none, and be followed by more: each looks at a bounded number of sagas.
    `next` is None at the end. All that was on the log `staleness_ms` ago is in it, but for `damaged` records, which
    cannot be read; `position` is the next offset that was not read, by `topic/partition`.
    """

    sagas: list[dict[str, Any]]
    next: str | None
    position: Mapping[str, int]
    staleness_ms: int
    damaged: int


class SagaSearch(LogIndex):
    """Finds the sagas of a log: `async with SagaSearch(log) as search: await search.page(SagaQuery("status = 'open'"))`.

    It follows the log in the file of its index, which `eventlib sql` reads too, and needs no running service.
    Guarantee: pages neither repeat nor miss a saga that does not change meanwhile. A page costs the same at any number
    of sagas: it looks at some thousand of them at most.
    Raises: WiringError for a choreography that does not say what its sagas are, or declares what cannot be searched.
    """

    def __init__(self, log: EventLog, *, path: Path | str | None = None) -> None:
        check(log, EventLog, "log", A_LOG)
        self.catalogue = sagas_of(log.choreography)
        self.catalogue.example = lambda attribute: next(iter(values_of(self, attribute)), None)
        self._declared = declared_in(log.choreography)
        super().__init__(log, path=path, topics=self._topics_of(log))

    def _topics_of(self, log: EventLog) -> list[str]:
        """Return the topics that are read: those of the events of sagas, and what services note."""
        app, key = log.choreography, saga_key(log.choreography)
        events = {contract_of(event).topic.name for event in app.events if key in event.model_fields}
        return [*events, *(topic.name for each in app.services for topic in (each.changelog, each.journal))]

    async def page(self, query: SagaQuery) -> SagaPage:
        """Return a page of sagas. Raises: QueryError, with the place; ContractError for a wrong limit or `after`."""
        age_s = await self.age_s()
        await asyncio.sleep(0)  # who reads page after page lets others be answered meanwhile
        rowids, further = self._find(query)
        place = {f"{topic}/{partition}": offset for (topic, partition), offset in self.read_positions.items()}
        damaged = sum(topic in self._topics for topic, _, _ in self.damaged)
        return SagaPage(self._shown(rowids, now_ms()), further, place, int(age_s * 1000), damaged)

    async def full_page(self, query: SagaQuery, within_s: float = float("inf")) -> SagaPage:
        """Return as many sagas as are wanted, if there are so many, from as many pages as it takes, for about `within_s`.

        Raises: as `page`.
        """
        found, until = list[dict[str, Any]](), perf_counter() + within_s
        while True:
            page = await self.page(replace(query, limit=query.limit - len(found)))
            found += page.sagas
            if page.next is None or len(found) == query.limit or perf_counter() >= until:
                return replace(page, sagas=found)
            query = replace(query, after=page.next)

    def count(self, where: str, *, most: int, within_s: float) -> tuple[int, bool]:
        """Count the sagas of a query, up to `most`, for about `within_s`; tell whether there may be more. Raises: as `page`."""
        count, until, query = 0, perf_counter() + within_s, SagaQuery(where, limit=most)
        while True:
            rowids, further = self._find(query)
            count += len(rowids)
            if further is None or count >= most or perf_counter() >= until:
                return count, further is not None
            query = replace(query, limit=most - count, after=further)

    def _find(self, query: SagaQuery) -> tuple[list[int], str | None]:
        """Return the rowids of a page, and where the next page begins. Raises: as `page`."""
        if not 1 <= query.limit <= MOST_LIMIT:
            raise ContractError(f"limit is {query.limit}: it is how many sagas a page has at most, 1 to {MOST_LIMIT:,}")
        now = now_ms()
        condition = compiled(parse_where(query.where) if query.where.strip() else Every(()), self.catalogue, now)
        sort = self._sort(query.order_by)
        after = sort.place(query.after)
        try:
            found = page_of(self.db, condition, sort, after, query.limit)
        except sqlite3.Error as error:
            raise explained(error, self.file, WHAT) from error
        return found.rowids, None if found.next is None else sort.token(found.next)

    def _sort(self, order_by: str) -> Sort:
        try:
            order = parse_order(order_by)
            attribute = self.catalogue.sorting(order.name, order.column)
        except QueryError as error:
            error.part = "order_by"
            raise
        return Sort(attribute, order.descending is not (order.name == "age"))  # the oldest have started first

    def one(self, saga: str) -> dict[str, Any] | None:
        """Return one saga; None when there is none, or it was not read yet."""
        rows = self.rows("SELECT rowid FROM _sagas WHERE saga = ?", (saga,))
        return self._shown([row[0] for row in rows], now_ms())[0] if rows else None

    def of_correlation(self, correlation_id: str) -> list[str]:
        """Return the sagas that an event with this correlation id belongs to; none that were not read yet."""
        rows = self.rows("SELECT saga FROM _stories WHERE correlation_id = ? ORDER BY saga", (correlation_id,))
        return [row[0] for row in rows]

    def _shown(self, rowids: Sequence[int], now: int) -> list[dict[str, Any]]:
        attributes = [self.catalogue.named(name, 0) for name in _SHOWN]
        attributes += [each.attribute for each in self._declared.values() if not each.field.many]
        columns = ", ".join(f"({each.sql})" for each in attributes)
        those = "s.rowid IN (SELECT value FROM json_each(:rowids))"
        question = f"SELECT s.rowid, {columns} FROM _sagas AS s WHERE {those}"  # noqa: S608  of the catalogue
        rows = self.db.execute(question, {"rowids": to_json(rowids).decode(), "now": now})
        shown = {
            rowid: {_name(each): _value(each, value, now) for each, value in zip(attributes, values, strict=True)}
            for rowid, *values in rows
        }
        waits = self._waits([each["saga"] for each in shown.values()])
        for each in shown.values():
            of_saga = waits.get(each["saga"], [])
            each["waits"] = [wait for wait in of_saga if wait["command"]] if each["status"] == "ended" else of_saga
        return [shown[rowid] for rowid in rowids]

    def _waits(self, sagas: Sequence[object]) -> dict[object, list[dict[str, Any]]]:
        """Return what some sagas wait for: of each what is parked or paused first, then effects, then deadlines.

        `command` is what lets an effect of the past run.
        """
        question = (
            "SELECT saga, kind, name, service, decider, since, due_at, reason, origin FROM _waits "
            "WHERE saga IN (SELECT value FROM json_each(?))"
        )
        found = dict[object, list[dict[str, Any]]]()
        for saga, kind, name, service, decider, since, due_at, reason, origin in self.rows(
            question, (to_json(sagas).decode(),)
        ):
            wait = {
                "kind": kind,
                "name": name,
                "service": service,
                "decider": decider,
                "since": from_ms(since),
                "due_at": None if due_at is None else from_ms(due_at),
                "reason": reason,
                "command": _command(kind, decider, reason, origin),
            }
            found.setdefault(saga, []).append(wait)
        for waits in found.values():
            waits.sort(key=lambda wait: (_RANK[wait["kind"]], wait["due_at"] or wait["since"], wait["name"]))
        return found


def _command(kind: str, decider: str, reason: str | None, origin: str) -> str | None:
    about = changelog_key(origin)
    is_past = kind == "parked" and about.kind == "effect" and is_of_past(reason or "")
    return retry_command(decider, about.key) if is_past else None


def _value(attribute: Attribute, stored: Any, now: int) -> object:
    if stored is None:
        return None
    if attribute.name == "age":
        return now - stored
    return from_ms(stored) if attribute.kind.type == "time" else attribute.kind.shown(stored)


def _name(attribute: Attribute) -> str:
    return f"{attribute.name}_ms" if attribute.kind.type == "duration" else attribute.name
