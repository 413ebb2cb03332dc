"""The page that shows how everything is: services and their tasks, sagas by status and age, what is parked, what comes in."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.pause_page import query_of
from eventlib.console.reading import StatusWatch
from eventlib.console.rendering import Pages
from eventlib.console.trends import SPANS, trend, way_to
from eventlib.eventlog import EventLog
from eventlib.identity.principal import READERS, allow
from eventlib.index.attributes import IS_OVERDUE
from eventlib.index.hours import HOUR_MS
from eventlib.index.log_index import LogIndex
from eventlib.limits import Limit
from eventlib.operations.complaints import Limits, damage_of, found_wrong
from eventlib.operations.parked_groups import grouped
from eventlib.operations.status import Status
from eventlib.queries.pauses import Paused, PauseTarget
from eventlib.queries.projection import Projection
from eventlib.values import iso_ms, now_ms

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
