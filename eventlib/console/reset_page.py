"""The page that moves a service's offsets: what would be skipped, or handled again, before anything is done."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import Role, allow
from eventlib.operations.clock_reset import preview_clock_reset, reset_as_previewed
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.reprocessing.jobs import RerunJobs, outlook, way_back
from eventlib.operations.seek import SeekPlan, move, reset_plans, reset_target, token_of_plans

_KEYS = 200
To = Annotated[str, Query(max_length=40)]


def reset_routes(pages: Pages, log: EventLog, jobs: RerunJobs) -> APIRouter:
    """Return the routes of resets: of offsets, and of clocks."""
    routes = APIRouter()

    @routes.get("/reset")
    @allow(Role.OPERATOR)
    async def preview(request: Request, service: Annotated[str, Query(max_length=200)], to: To = "latest") -> Response:
        of, plans, wrong = log.choreography.service(service), list[SeekPlan](), ""
        goes_back = False
        try:
            found = await reset_plans(log, of, reset_target(to))
            plans, goes_back = found or [], found is None
        except EventlibError as error:
            wrong = str(error)
        content: dict[str, Any] = {"service": service, "to": to, "plans": plans, "goes_back": goes_back, "wrong": wrong}
        keys, count = _keys(plans), sum(each.inputs for each in plans)
        return pages.render(
            request,
            "reset.html",
            422 if wrong else 200,
            **content,
            keys=keys,
            count=count,
            token=token_of_plans(plans),
            outlook=await outlook(log, of),
        )

    @routes.post("/reset")
    @allow(Role.OPERATOR)
    async def reset(request: Request, form: OwnForm, caller: Caller) -> Response:
        of, target, why = log.choreography.service(form.get("service")), reset_target(form.get("to")), form.reason()
        plans = await reset_plans(log, of, target)
        if plans is None:
            job = jobs.begin(await way_back(log, of, target, f"{caller.by}: {why}"))
            return RedirectResponse(path_of("reruns", job.service, job.name), 303)
        refuse_moved(form.get("as_previewed"), token_of_plans(plans))
        if form.get("sure").strip() != str(sum(each.inputs for each in plans)):
            raise Refusal(422, "unsure", "write how many inputs would be skipped now: go back, and look again")
        done = await move(log, of, plans, f"{caller.by}: {why}")
        count = sum(each.inputs for each in done)
        return pages.render(request, "reset_done.html", service=of.name, count=count, keys=_keys(done))

    @routes.get("/reset-clock")
    @allow(Role.OPERATOR)
    async def preview_clock(request: Request, service: Annotated[str, Query(max_length=200)]) -> Response:
        found, wrong = None, ""
        try:
            found = await preview_clock_reset(log, log.choreography.service(service))
        except EventlibError as error:
            wrong = str(error)
        content: dict[str, Any] = {"service": service, "found": found, "wrong": wrong}
        return pages.render(request, "reset_clock.html", 422 if wrong else 200, **content)

    @routes.post("/reset-clock")
    @allow(Role.OPERATOR)
    async def reset_clock(request: Request, form: OwnForm, caller: Caller) -> Response:
        of, why = log.choreography.service(form.get("service")), f"{caller.by}: {form.reason()}"
        done = await reset_as_previewed(log, of, None, form.get("as_previewed"), why)
        return pages.render(request, "reset_clock_done.html", service=of.name, tasks=done)

    return routes


def _keys(plans: Sequence[SeekPlan]) -> Sequence[tuple[str, int]]:
    """Return the first keys with the most inputs that are skipped."""
    found = Counter[str]()
    for each in plans:
        found.update(each.keys)
    return found.most_common(_KEYS)
