"""The page that shows how everything is: services and their tasks, sagas by status and age, what is parked, what comes in."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from eventlib.console.pause_page import query_of
from eventlib.console.reading import StatusWatch
from eventlib.console.rendering import Pages
from eventlib.console.saga_list import SagaList
from eventlib.eventlog import EventLog
from eventlib.identity.principal import READERS, allow
from eventlib.limits import Limit
from eventlib.operations.parked_groups import grouped
from eventlib.operations.status import Limits, Status, complaints
from eventlib.queries.pauses import Paused, PauseTarget

_GROUPS = 6
_OF_INTEREST = (
    ("Open", "status != 'ended'", "started_at desc"),
    ("Overdue", "status = 'overdue'", "started_at asc"),
    ("Parked", "waiting_kind = 'parked'", "started_at asc"),
    ("Wait for an effect", "waiting_kind = 'effect'", "started_at asc"),
    ("Open for over 5 min", "status != 'ended' and age > 5m", "started_at asc"),
    ("Open for over 1 h", "status != 'ended' and age > 1h", "started_at asc"),
    ("Open for over 1 d", "status != 'ended' and age > 1d", "started_at asc"),
    ("Ended within 1 h", "status = 'ended' and age < 1h", "started_at desc"),
)


def overview_routes(pages: Pages, log: EventLog, watch: StatusWatch, sagas: SagaList) -> APIRouter:
    """Return the route of the overview."""
    routes = APIRouter()

    @routes.get("/overview")
    @allow(*READERS)
    async def overview(request: Request) -> Response:
        status = await watch.status()
        return pages.render(
            request,
            "overview.html",
            status=status,
            complaints=complaints(status, Limits()),
            services=[(name, status.of(name)) for name in dict.fromkeys(task.service for task in status.tasks)],
            rates=sorted(status.said_per_s.items(), key=lambda each: -each[1]),
            busiest=max([*status.said_per_s.values(), 0.01]),
            groups=grouped(status.parked)[:_GROUPS],
            paused=[(each, query_of(each.target)) for each in status.paused],
            limits=_limits(log, status),
            sagas=[(name, where, order, sagas.counted(where)) for name, where, order in _OF_INTEREST],
        )

    return routes


def _limits(log: EventLog, status: Status) -> list[tuple[PauseTarget, Limit, Paused | None, str]]:
    """Return the limits of services, each with the numbers that an operator has set in place of the declared ones."""
    now = {each.target: each for each in status.paused}
    return [
        (target, declared, now.get(target), query_of(target))
        for service in log.choreography.services
        for name, declared in sorted(service.limits.items())
        for target in [PauseTarget(service.name, limit=name)]
    ]
