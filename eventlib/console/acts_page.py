"""The page of acts: who did what to the running services, when and why."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.login import LOOK
from eventlib.console.rendering import Pages
from eventlib.eventlog import EventLog
from eventlib.identity.principal import allow
from eventlib.operations.acts import acts
from eventlib.values import now_ms

_DAYS = (1, 7, 30, 365)
_MOST = 500


def act_routes(pages: Pages, log: EventLog) -> APIRouter:
    """Return the route of acts."""
    routes = APIRouter()

    @routes.get("/acts")
    @allow(*LOOK)
    async def list_acts(
        request: Request,
        days: Annotated[int, Query(ge=1, le=3_650)] = 7,
        who: Annotated[str, Query(max_length=200)] = "",
        what: Annotated[str, Query(max_length=40)] = "",
    ) -> Response:
        since_ms = now_ms() - timedelta(days=days) // timedelta(milliseconds=1)
        every = await acts(log, since_ms)
        found = [each for each in every if who in each.by and what in {"", each.what}]
        return pages.render(
            request,
            "acts.html",
            acts=found[::-1][:_MOST],
            count=len(found),
            kinds=sorted({each.what for each in every}),
            days=days,
            spans=_DAYS,
            who=who,
            what=what,
        )

    return routes
