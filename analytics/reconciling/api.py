"""An application's API compared with its log: each row now, and on the log at the position in the API's answer.

The list is compared with the rows as of the log's end. A row that differs may only have changed meanwhile: it is
requested again, once the API is as far as the log, and compared with the log at the answer's own position.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import SparkSession

from analytics.audit.application import Application, Run
from analytics.reconciling.difference import Compared, Difference, compared_of
from analytics.reconciling.outside import Api, Cut, LiveApi, Outside, Row
from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.model.record import key_text
from eventlib.model.service import Service
from eventlib.queries.state import partition_of
from eventlib.runtime.records import POSITION_KEY, Positions

WHERE = "HTTP API"
_ROUNDS = 4
_THE_END = "the end of the log"
_CHUNK = 1_000
_FURTHEST = 20_000
"""How far back a task's position is searched: earlier changelog records are compacted."""


@dataclass(frozen=True)
class _Comparison:
    """An API under comparison: what is declared of it, the connection to it, and the log."""

    spark: SparkSession
    url: str
    outside: Outside
    about: LiveApi
    api: Api

    def differ(self, name: str, live: Row | None, logged: Row | None, position: str) -> list[Difference]:
        """Return what differs in one row."""
        if live is None or logged is None:
            if live is logged:
                return []
            shown = (self.about.shown(live) if live else None, self.about.shown(logged) if logged else None)
            return [Difference(WHERE, self.about.table, name, "", *shown, position)]
        return [
            Difference(WHERE, self.about.table, name, field, _text(live[field]), _text(logged[field]), position)
            for field in self.about.fields
            if self.about.seen(field, live) != self.about.seen(field, logged)
        ]

    def has_ended(self, row: Row | None) -> bool:
        """Return whether a row is final; an unknown one is not going to change."""
        return row is None or self.about.is_final(row)


def api_findings(  # noqa: PLR0913, PLR0917  both sides, and where they are
    spark: SparkSession,
    source: tuple[str, Application],
    outside: Outside,
    about: LiveApi,
    api: Api,
    live: Mapping[str, Row],
    logged: Mapping[str, Row],
) -> tuple[Compared, list[Difference]]:
    """Return the differences between the rows of an API and a log (its URL, and its application).

    `live` is the API's list, read before `logged` was read from the log. Raises: LogUnavailable, ContractError.
    """
    url, application = source
    comparison = _Comparison(spark, url, outside, about, api)
    keys = live.keys() | logged.keys()
    found = {name: comparison.differ(name, live.get(name), logged.get(name), _THE_END) for name in keys}
    found = {name: differences for name, differences in found.items() if differences}
    with application.running(url) as (opened, run):
        positions = _Positions(opened, run, about)
        suspects = set(found)
        for _ in range(_ROUNDS):
            if not suspects:
                break
            again = _refetch(comparison, positions, suspects)
            found = {name: each for name, each in found.items() if name not in suspects} | again.differ
            suspects = again.unsettled
    differences = [each for name in sorted(found) for each in found[name]]
    return compared_of(WHERE, about.table, len(keys) - len(found), differences), differences


class _Refetched(NamedTuple):
    """The differences of rows that were requested again; `unsettled` are those that keep changing."""

    differ: dict[str, list[Difference]]
    unsettled: set[str]


def _refetch(comparison: _Comparison, positions: "_Positions", suspects: Collection[str]) -> _Refetched:
    """Request rows again, and compare them with the log at the positions of the answers."""
    least = positions.now(suspects)
    asked = {name: comparison.api.row(name, least.get(positions.home(name))) for name in sorted(suspects)}
    cuts = {name: positions.cut(position) for name, (_, position) in asked.items()}
    known = comparison.outside.expected(comparison.spark, comparison.url, cuts)
    differ = {
        name: comparison.differ(name, row, known.get(name), position or _THE_END)
        for name, (row, position) in asked.items()
    }
    differ = {name: each for name, each in differ.items() if each}
    is_final = {name: comparison.has_ended(asked[name][0]) and comparison.has_ended(known.get(name)) for name in differ}
    return _Refetched(differ, {name for name in differ if not is_final[name]})


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class _Positions:
    """Resolves the API's positions: how far the service that answers had come in a task."""

    def __init__(self, opened: EventLog, run: Run, about: LiveApi) -> None:
        self._opened, self._run = opened, run
        self._service: Service = opened.choreography.service(about.service)
        self._requests = contract_of(about.request).topic.name
        self._cuts: dict[tuple[int, int], Cut | None] = {}

    def home(self, key: str) -> int:
        """Return the task of a key."""
        return partition_of(self._service, key)

    def now(self, keys: Collection[str]) -> dict[int, str]:
        """Return, for the tasks of these keys, the position that is the end of their changelogs now."""
        found = dict[int, str]()
        for partition in {self.home(name) for name in keys}:
            end = self._run(self._opened.port.end(self._service.changelog.name, partition))
            cut = self._cut_at(partition, end)
            if cut is not None and (handled := cut.next.get(self._requests, 0)):
                found[partition] = f"{partition}-{handled - 1}-{end}"
        return found

    def cut(self, position: str) -> Cut | None:
        """Return the service's cursors at a position `partition-request-changelog`; None when unknown."""
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
