"""The page that shows how everything is: services and their tasks, sagas by status and age, what is parked, what comes in."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

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
from eventlib.operations.status import Limits, Status, TaskStatus, complaints
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


@dataclass(frozen=True, slots=True)
class ServiceLine:
    """A service: its tasks together."""

    name: str
    tasks: Sequence[TaskStatus]

    @property
    def lag(self) -> int:
        """How many inputs it has not handled."""
        return sum(task.lag for task in self.tasks)

    @property
    def behind_ms(self) -> int:
        """How old the oldest of them is."""
        return round(max(task.behind_s for task in self.tasks) * 1000)

    @property
    def pending(self) -> int:
        """How many effects have no answer yet."""
        return sum(task.pending for task in self.tasks)

    @property
    def parked(self) -> int:
        """How many keys and effects wait for a person."""
        return sum(task.parked_keys + task.parked_effects for task in self.tasks)

    @property
    def alone(self) -> int:
        """How many tasks have no owner."""
        return sum(task.owner is None for task in self.tasks)

    @property
    def owners(self) -> Sequence[str]:
        """Who runs them."""
        return sorted({task.owner for task in self.tasks if task.owner is not None})

    @property
    def handled_at(self) -> datetime | None:
        """When it has handled something last."""
        return max((task.handled_at for task in self.tasks if task.handled_at), default=None)


class LimitLine(NamedTuple):
    """A limit of a service, and the numbers that an operator has set in place of the declared ones."""

    target: PauseTarget
    declared: Limit
    now: Paused | None
    query: str


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
            services=_services(status),
            rates=sorted(status.said_per_s.items(), key=lambda each: -each[1]),
            busiest=max([*status.said_per_s.values(), 0.01]),
            groups=grouped(status.parked)[:_GROUPS],
            paused=[(each, query_of(each.target)) for each in status.paused],
            limits=_limits(log, status),
            sagas=[(name, where, order, sagas.counted(where)) for name, where, order in _OF_INTEREST],
        )

    return routes


def _services(status: Status) -> Sequence[ServiceLine]:
    return [ServiceLine(name, status.of(name)) for name in dict.fromkeys(task.service for task in status.tasks)]


def _limits(log: EventLog, status: Status) -> Sequence[LimitLine]:
    now = {each.target: each for each in status.paused}
    return [
        LimitLine(target, declared, now.get(target), query_of(target))
        for service in log.choreography.services
        for name, declared in sorted(service.limits.items())
        for target in [PauseTarget(service.name, limit=name)]
    ]
