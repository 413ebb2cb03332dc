"""The page of acts: who did what to the running services, when and why."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.reading import records_behind
from eventlib.console.rendering import Pages
from eventlib.identity.principal import READERS, allow
from eventlib.operations.acts import ActIndex
from eventlib.values import now_ms

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
