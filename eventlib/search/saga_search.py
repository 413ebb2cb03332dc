"""The index that sagas are found by: pages of them, at a cost that does not grow with their number."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventlib.arguments import A_LOG, check
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.sqlite.errors import explained
from eventlib.search.attributes import Attribute, declared_in, sagas_of
from eventlib.search.compiling import compiled
from eventlib.search.language import parse_order, parse_where
from eventlib.search.saga_view import SagaView
from eventlib.search.scan import Sort, page_of
from eventlib.search.terms import Every, QueryError
from eventlib.state.projection import Projection
from eventlib.state.projection_file import WHAT
from eventlib.values import from_ms, now_ms

MOST_LIMIT = 1_000
_SHOWN = (
    "saga", "status", "state", "outcome", "reason", "started_at", "last_at", "ended_at", "overdue_at", "age", "duration", "steps",
    "failures", "compensations",
)  # fmt: skip
_RANK = {"parked": 0, "effect": 1, "deadline": 2}


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


class SagaSearch(Projection):
    """Finds the sagas of a log: `async with SagaSearch(log) as search: await search.page(SagaQuery("status = 'open'"))`.

    It follows the log in a file of its own, as every `Projection`, and needs no running service.
    Guarantee: pages neither repeat nor miss a saga that does not change meanwhile. A page costs the same at any number
    of sagas: it looks at some thousand of them at most.
    Raises: WiringError for a choreography that does not say what its sagas are, or declares what cannot be searched.
    """

    def __init__(self, log: EventLog, *, path: Path | str | None = None) -> None:
        check(log, EventLog, "log", A_LOG)
        self.catalogue = sagas_of(log.choreography)
        self._declared = declared_in(log.choreography)
        super().__init__(log, SagaView(log).view(), path)

    async def page(self, query: SagaQuery) -> SagaPage:
        """Return a page of sagas. Raises: QueryError, with the place; ContractError for a wrong limit or `after`."""
        age_s = await self.age_s()
        found, further = self.find(query)
        place = {f"{topic}/{partition}": offset for (topic, partition), offset in sorted(self.positions.items())}
        return SagaPage(found, further, place, int(age_s * 1000), len(self.damaged))

    def find(self, query: SagaQuery) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page's sagas, and where the next page begins. Raises: as `page`."""
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
        return self._shown(found.rowids, now), None if found.next is None else sort.token(found.next)

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
        rows = self.rows("SELECT rowid FROM sagas WHERE saga = ?", (saga,))
        return self._shown([row[0] for row in rows], now_ms())[0] if rows else None

    def _shown(self, rowids: Sequence[int], now: int) -> list[dict[str, Any]]:
        attributes = [self.catalogue.named(name, 0) for name in _SHOWN]
        attributes += [each.attribute for each in self._declared.values() if not each.field.many]
        columns = ", ".join(f"({each.sql})" for each in attributes)
        found = list[dict[str, Any]]()
        for rowid in rowids:
            question = f"SELECT {columns} FROM sagas AS s WHERE s.rowid = :rowid"  # noqa: S608  of the catalogue
            (values,) = self.db.execute(question, {"rowid": rowid, "now": now}).fetchall()
            shown = {_name(each): _value(each, value, now) for each, value in zip(attributes, values, strict=True)}
            waits = [] if shown["status"] == "ended" else self._waits(str(shown["saga"]))
            found.append({**shown, "waits": waits})
        return found

    def _waits(self, saga: str) -> list[dict[str, Any]]:
        question = "SELECT kind, name, service, decider, since, due_at, reason FROM saga_waits WHERE saga = ?"
        found = [
            {
                "kind": kind,
                "name": name,
                "service": service,
                "decider": decider,
                "since": from_ms(since),
                "due_at": None if due_at is None else from_ms(due_at),
                "reason": reason,
            }
            for kind, name, service, decider, since, due_at, reason in self.rows(question, (saga,))
        ]
        return sorted(found, key=lambda wait: (_RANK[wait["kind"]], wait["due_at"] or wait["since"], wait["name"]))


def _value(attribute: Attribute, stored: Any, now: int) -> object:
    if stored is None:
        return None
    if attribute.name == "age":
        return now - stored
    return from_ms(stored) if attribute.kind.type == "time" else attribute.kind.shown(stored)


def _name(attribute: Attribute) -> str:
    return f"{attribute.name}_ms" if attribute.kind.type == "duration" else attribute.name
