"""The order API compared with the tables: each order now, and on the log at the position in the API's answer.

The list is compared with the tables as of the log's end. An order that differs may only have changed meanwhile: it is
requested again, once the API is as far as the log, and compared with the log at the answer's own position.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from analytics.audit.application import Application, Run
from analytics.reconciling.difference import Compared, Difference, compared_of
from analytics.reconciling.expected import Cut, Row, expected_orders
from analytics.reconciling.orders_api import FIELDS, OrdersApi
from eventlib.eventlog import EventLog
from eventlib.log.record import key_text
from eventlib.model.event import contract_of
from eventlib.model.service import Service
from eventlib.queries.state import partition_of
from eventlib.runtime.records import POSITION_KEY, Positions
from services.order import service as order_service
from services.order.events import OrderSubmitted

WHERE, TABLE = "HTTP API", "orders"
_REQUESTS = contract_of(OrderSubmitted).topic.name
_ROUNDS = 4
_THE_END = "the end of the log"
_CHUNK = 1_000
_FURTHEST = 20_000
"""How far back an order's position is searched: earlier changelog records are compacted."""


def api_findings(
    spark: SparkSession,
    source: tuple[str, Application],
    api: OrdersApi,
    live: Mapping[str, Row],
    logged: Mapping[str, Row],
) -> tuple[Compared, list[Difference]]:
    """Return the differences between the orders of an API and a log (its URL, and its application).

    `live` is the API's list, read before `logged` was read from the log. Raises: LogUnavailable, ContractError.
    """
    keys = live.keys() | logged.keys()
    found = {name: _differ(name, live.get(name), logged.get(name), _THE_END) for name in keys}
    found = {name: differences for name, differences in found.items() if differences}
    url, application = source
    with application.running(url) as (opened, run):
        positions = _Positions(opened, run)
        suspects = set(found)
        for _ in range(_ROUNDS):
            if not suspects:
                break
            again = _refetch(spark, url, api, positions, suspects)
            found = {name: each for name, each in found.items() if name not in suspects} | again.differ
            suspects = again.unsettled
    differences = [each for name in sorted(found) for each in found[name]]
    return compared_of(WHERE, TABLE, len(keys) - len(found), differences), differences


class _Refetched(NamedTuple):
    """The differences of orders that were requested again; `unsettled` are those that keep changing."""

    differ: dict[str, list[Difference]]
    unsettled: set[str]


def _refetch(
    spark: SparkSession, url: str, api: OrdersApi, positions: "_Positions", suspects: Collection[str]
) -> _Refetched:
    """Request orders again, and compare them with the log at the positions of the answers."""
    least = positions.now(suspects)
    asked = {name: api.order(name, least.get(positions.home(name))) for name in sorted(suspects)}
    cuts = {name: positions.cut(position) for name, (_, position) in asked.items()}
    known = expected_orders(spark, url, cuts)
    differ = {
        name: _differ(name, row, known.get(name), position or _THE_END) for name, (row, position) in asked.items()
    }
    differ = {name: each for name, each in differ.items() if each}
    is_final = {name: _has_ended(asked[name][0]) and _has_ended(known.get(name)) for name in differ}
    return _Refetched(differ, {name for name in differ if not is_final[name]})


def _has_ended(row: Row | None) -> bool:
    """Return whether an order has ended; an unknown one has not."""
    return row is None or row["ended_at"] is not None


def _differ(name: str, live: Row | None, logged: Row | None, position: str) -> list[Difference]:
    if live is None or logged is None:
        if live is logged:
            return []
        sides = (_shown(live), _shown(logged))
        return [Difference(WHERE, TABLE, name, "", *sides, position)]
    return [
        Difference(WHERE, TABLE, name, field, _text(live[field]), _text(logged[field]), position)
        for field in FIELDS
        if _seen(field, live) != _seen(field, logged)
    ]


def _seen(field: str, row: Row) -> object:
    """Return the compared value: while an order is open, only whether there is a reason against it.

    Which of several is the first depends on the order in which they were consumed, and is decided at the end.
    """
    value = row[field]
    return value is not None if field == "reason" and row["ended_at"] is None else value


def _shown(row: Row | None) -> str | None:
    return None if row is None else f"{row['status']}, {row['amount_cents']} {row['currency']}"


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class _Positions:
    """Resolves the API's positions: how far the order service had come in a task."""

    def __init__(self, opened: EventLog, run: Run) -> None:
        self._opened, self._run = opened, run
        self._service: Service = opened.choreography.service(order_service.name)
        self._cuts: dict[tuple[int, int], Cut | None] = {}

    def home(self, order_id: str) -> int:
        """Return the task of an order."""
        return partition_of(self._service, order_id)

    def now(self, orders: Collection[str]) -> dict[int, str]:
        """Return, for the tasks of these orders, the position that is the end of their changelogs now."""
        found = dict[int, str]()
        for partition in {self.home(name) for name in orders}:
            end = self._run(self._opened.port.end(self._service.changelog.name, partition))
            cut = self._cut_at(partition, end)
            if cut is not None and (handled := cut.next.get(_REQUESTS, 0)):
                found[partition] = f"{partition}-{handled - 1}-{end}"
        return found

    def cut(self, position: str) -> Cut | None:
        """Return the order service's cursors at a position `partition-request-changelog`; None when unknown."""
        parts = [int(part) for part in position.split("-")] if position else []
        return self._cut_at(parts[0], parts[2]) if len(parts) == 3 else None  # noqa: PLR2004  as the API says it

    def _cut_at(self, partition: int, end: int) -> Cut | None:
        if (partition, end) not in self._cuts:
            self._cuts[partition, end] = self._run(self._look_for(partition, end))
        return self._cuts[partition, end]

    async def _look_for(self, partition: int, end: int) -> Cut | None:
        """Search backwards from an offset of the changelog for the task's positions."""
        topic, high, least = self._service.changelog.name, end, max(0, end - _FURTHEST)
        while high > least:
            low = max(least, high - _CHUNK)
            for record in reversed(await self._opened.port.read(topic, partition, low, high - low)):
                if record.offset < high and key_text(record) == POSITION_KEY:
                    positions = self._opened.codec.decode(Positions, record.value or b"")
                    return Cut(positions.next, positions.at_ms)
            high = low
        return None
