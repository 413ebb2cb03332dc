"""The overview: services, sagas by status and age, what is parked, and how each hour went; and the page of acts."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.pause_page import query_of
from eventlib.console.reading import StatusWatch, records_behind
from eventlib.console.rendering import Pages, lasting, path_of
from eventlib.eventlog import EventLog
from eventlib.identity.principal import READERS, allow
from eventlib.index.attributes import IS_OVERDUE
from eventlib.index.hours import HOUR_MS, Hour, hours_of
from eventlib.index.log_index import LogIndex
from eventlib.index.tables import Declared
from eventlib.limits import Limit
from eventlib.log.reading import SkippingReader
from eventlib.model.choreography import Choreography
from eventlib.operations.acts import ActIndex
from eventlib.operations.complaints import Limits, damage_of, found_wrong
from eventlib.operations.parked_groups import grouped
from eventlib.operations.status import Status
from eventlib.queries.pauses import Paused, PauseTarget
from eventlib.queries.projection import Projection
from eventlib.values import from_ms, iso_ms, now_ms, snake_case

_GROUPS, _DAMAGED = 6, 5
_OPEN = "WHERE s.open"
_WAITING = "WHERE s.saga IN (SELECT saga FROM _waits WHERE kind = '{}')"
_TILES = (
    ("Open", "status != 'ended'", _OPEN),
    ("Overdue", "status = 'overdue'", f"{_OPEN} AND {IS_OVERDUE}"),
    ("Parked", "waiting_kind = 'parked'", _WAITING.format("parked")),
    ("Wait for an effect", "waiting_kind = 'effect'", _WAITING.format("effect")),
    ("Open for over 5 min", "status != 'ended' and age > 5m", f"{_OPEN} AND s.started_at < :now - 300000"),
    ("Open for over 1 h", "status != 'ended' and age > 1h", f"{_OPEN} AND s.started_at < :now - 3600000"),
    ("Open for over 1 d", "status != 'ended' and age > 1d", f"{_OPEN} AND s.started_at < :now - 86400000"),
    ("Ended within 1 h", "ended_at >= '{}'", "WHERE s.ended_at >= :now - 3600000"),
)
"""Sagas of interest: their name, the query that lists them, and the condition that counts them by indexes of the tables."""


def overview_routes(pages: Pages, log: EventLog, watch: StatusWatch, index: LogIndex) -> APIRouter:
    """Return the route of the overview."""
    routes = APIRouter()

    @routes.get("/overview")
    @allow(*READERS)
    async def overview(request: Request, span: Literal["day", "week"] = "day") -> Response:
        status = await watch.status()
        return pages.render(
            request,
            "overview.html",
            status=status,
            complaints=found_wrong(status, Limits()),
            damage=damage_of(status)[:_DAMAGED],
            services=[(name, status.of(name)) for name in dict.fromkeys(task.service for task in status.tasks)],
            rates=sorted(
                ((name, round(rate * 60)) for name, rate in status.said_per_s.items()), key=lambda each: -each[1]
            ),
            groups=grouped(status.parked)[:_GROUPS],
            paused=[(each, query_of(each.target)) for each in status.paused],
            limits=_limits(log, status),
            tiles=_tiles(index),
            trend=await trend(index, span),
            span=span,
            spans=SPANS,
        )

    @routes.get("/hours/{what}/{hour}")
    @allow(*READERS)
    async def hour(what: str, hour: Annotated[int, Path(ge=0, le=2_000_000)]) -> Response:
        return RedirectResponse(way_to(log.choreography, what, hour), 303)

    return routes


def _tiles(index: Projection) -> list[tuple[str, str, str, int]]:
    """Return the sagas of interest: their name, the query and the order of their list, and how many they are."""
    now, found = now_ms(), list[tuple[str, str, str, int]]()
    for name, where, condition in _TILES:
        ((count,),) = index.rows(f"SELECT count(*) FROM _sagas AS s {condition}", {"now": now})  # noqa: S608  of `_TILES`
        order = "started_at desc" if name in {"Open", "Ended within 1 h"} else "started_at asc"
        found.append((name, where.format(iso_ms(now - HOUR_MS)), order, count))
    return found


def _limits(log: EventLog, status: Status) -> list[tuple[PauseTarget, Limit, Paused | None, str]]:
    """Return the limits of services, each with the numbers that an operator has set in place of the declared ones."""
    now = {each.target: each for each in status.paused}
    return [
        (target, declared, now.get(target), query_of(target))
        for service in log.choreography.services
        for name, declared in sorted(service.limits.items())
        for target in [PauseTarget(service.name, limit=name)]
    ]


SPANS = {"day": 24, "week": 168}
"""How many hours a picture has, by its name."""
_CAUSES = 5


@dataclass(frozen=True, slots=True)
class Series:
    """One picture: a bar for each hour, of which a part is darker (`inner`); a full bar is `most`."""

    name: str
    about: str
    bars: Sequence[int]
    inner: Sequence[int] = ()
    shown: Callable[[int], str] = "{:,}".format

    @property
    def most(self) -> int:
        """The largest bar."""
        return max(self.bars)

    def text(self, at: int) -> str:
        """Return what a bar says."""
        return (
            f"{self.shown(self.inner[at])} / {self.shown(self.bars[at])}" if self.inner else self.shown(self.bars[at])
        )


@dataclass(frozen=True, slots=True)
class Trend:
    """The hours up to now, the last of them going on, and their pictures. Of `unknown` bars the index has not read all.

    `causes` are those for which the most was parked: service, decider and kind of reason, each with its count.
    """

    hours: Sequence[Hour]
    series: Sequence[Series]
    causes: Sequence[tuple[tuple[str, str, str], int]]
    unknown: Collection[int]
    behind: int

    @property
    def times(self) -> Sequence[datetime]:
        """When each hour begins."""
        return [from_ms(each.sagas.hour * HOUR_MS) for each in self.hours]

    @property
    def lines(self) -> Sequence[int]:
        """The bars of hours with anything, the newest first."""
        known = [at for at in range(len(self.hours)) if at not in self.unknown]
        return [at for at in reversed(known) if any(each.bars[at] for each in self.series)]


async def trend(index: LogIndex, span: str) -> Trend:
    """Return the last hours of a span."""
    last, behind = now_ms() // HOUR_MS, await records_behind(index)
    hours = hours_of(index.rows, last - SPANS[span] + 1, last)
    causes = Counter[tuple[str, str, str]]()
    for each in hours:
        causes.update(each.parked)
    series = [
        Series("Started", "sagas", [each.sagas.started for each in hours]),
        Series("Completed", "sagas that ended well", [each.sagas.completed for each in hours]),
        Series("Failed", "sagas that ended in failure", [each.sagas.failed for each in hours]),
        Series("Compensated", "ended sagas with a compensation", [each.sagas.compensated for each in hours]),
        Series("Parked", "inputs and effects", [sum(each.parked.values()) for each in hours]),
        Series(
            "Duration",
            "of sagas that ended: p50, and p99 paler",
            [each.p99_ms or 0 for each in hours],
            [each.p50_ms or 0 for each in hours],
            lasting,
        ),
    ]
    since = await _kept_since(index)
    unknown = {
        at
        for at, each in enumerate(hours)
        if behind or (each.sagas.hour * HOUR_MS < since and not any(one.bars[at] for one in series))
    }
    return Trend(hours, series, causes.most_common(_CAUSES), unknown, behind)


async def _kept_since(index: LogIndex) -> int:
    """Return since when (ms) the log has all that was written; 0 where nothing is dropped."""
    log, since = SkippingReader(index.log.port), 0
    topics = await log.topics()
    for topic, partition in index.read_positions:
        if topic in topics and not topics[topic].compacted and (start := await log.log_start(topic, partition)) > 0:
            first = await log.read(topic, partition, start, 1)
            since = max(since, first[0].timestamp_ms if first else now_ms())
    return since


def way_to(app: Choreography, what: str, hour: int) -> str:
    """Return the address of the sagas, or what is parked, that a bar counts."""
    since, until = iso_ms(hour * HOUR_MS), iso_ms((hour + 1) * HOUR_MS)
    ended = f"ended_at >= '{since}' and ended_at < '{until}'"
    match what:
        case "Started":
            return path_of("sagas", where=f"started_at >= '{since}' and started_at < '{until}'")
        case "Completed" | "Failed":
            declared = Declared(app)
            bad = {*declared.types(failing=True), *declared.types(reversing=True)}
            ends = [
                f"'{snake_case(each)}'" for each in declared.types(final=True) if (each in bad) == (what == "Failed")
            ]
            return path_of("sagas", where=f"{ended} and outcome in ({', '.join(ends)})" if ends else ended)
        case "Compensated":
            return path_of("sagas", where=f"{ended} and compensations > 0")
        case "Parked":
            return path_of("parked", where=f"since >= '{since}' and since < '{until}'")
        case _:
            return path_of("sagas", where=ended, order_by="duration desc")


_DAYS = (1, 7, 30, 365)
_MOST = 500


def act_routes(pages: Pages, acts: ActIndex) -> APIRouter:
    """Return the route of acts."""
    routes = APIRouter()

    @routes.get("/acts")
    @allow(*READERS)
    async def list_acts(
        request: Request,
        days: Annotated[int, Query(ge=1, le=3_650)] = 7,
        who: Annotated[str, Query(max_length=200)] = "",
        what: Annotated[str, Query(max_length=40)] = "",
        bulk: Annotated[str, Query(max_length=40)] = "",
    ) -> Response:
        since_ms = now_ms() - timedelta(days=days) // timedelta(milliseconds=1)
        behind = await records_behind(acts.projection)
        found = await acts.page(0 if bulk else since_ms, who, what, _MOST, bulk)
        return pages.render(
            request, "acts.html", found=found, behind=behind, days=days, spans=_DAYS, who=who, what=what, bulk=bulk
        )

    return routes
