"""The page that moves a service's offsets: what would be skipped, or handled again, before anything is done."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Role, allow
from eventlib.operations.act import Desk
from eventlib.operations.clock_reset import ClockReset
from eventlib.operations.reprocessing.jobs import RerunJobs, outlook
from eventlib.operations.rerun_acts import RerunOutcome
from eventlib.operations.reset_acts import AcceptLoss, Reset, SeekOutcome

_KEYS = 200
To = Annotated[str, Query(max_length=40)]


def reset_routes(pages: Pages, log: EventLog, jobs: RerunJobs) -> APIRouter:
    """Return the routes of resets: of offsets, and of clocks."""
    routes = APIRouter()

    @routes.get("/reset")
    @allow(Role.OPERATOR)
    async def preview(request: Request, service: Annotated[str, Query(max_length=200)], to: To = "latest") -> Response:
        found, goes_back, wrong = SeekOutcome(service, []), False, ""
        try:
            seen = await Reset(service=service, to=to, dry_run=True).select(Desk(log, ""))
            found, goes_back = seen or found, seen is None
        except EventlibError as error:
            wrong = str(error)
        return pages.render(
            request,
            "reset.html",
            422 if wrong else 200,
            service=service,
            to=to,
            goes_back=goes_back,
            wrong=wrong,
            plans=found.plans,
            count=found.inputs,
            token=found.token,
            keys=found.keys.most_common(_KEYS),
            outlook=await outlook(log, log.choreography.service(service)),
        )

    @routes.post("/reset")
    @allow(Role.OPERATOR)
    async def reset(request: Request, form: OwnForm, caller: Caller) -> Response:
        def confirm(seen: SeekOutcome | RerunOutcome) -> None:
            if isinstance(seen, SeekOutcome) and form.get("sure").strip() != str(seen.inputs):
                raise Refusal(422, "unsure", "write how many inputs would be skipped now: go back, and look again")

        done = await form.act(Reset, takes_over=False).perform(Desk(log, caller.by, reruns=jobs), confirm)
        if isinstance(done, RerunOutcome):
            return RedirectResponse(path_of("reruns", done.job.service, done.job.name), 303)
        return pages.render(
            request, "reset_done.html", service=done.service, count=done.inputs, keys=done.keys.most_common(_KEYS)
        )

    _add_clocks(routes, pages, log)
    _add_losses(routes, pages, log)
    return routes


def _add_losses(routes: APIRouter, pages: Pages, log: EventLog) -> None:
    @routes.get("/loss")
    @allow(*READERS)
    async def preview_loss(request: Request, service: Annotated[str, Query(max_length=200)]) -> Response:
        found, wrong = None, ""
        try:
            found = await AcceptLoss(service=service, dry_run=True).select(Desk(log, ""))
        except EventlibError as error:
            wrong = str(error)
        return pages.render(request, "loss.html", 422 if wrong else 200, service=service, found=found, wrong=wrong)

    @routes.post("/loss")
    @allow(Role.OPERATOR)
    async def accept_loss(request: Request, form: OwnForm, caller: Caller) -> Response:
        act = form.act(AcceptLoss)
        try:
            await act.perform(Desk(log, caller.by))
        except ContractError as error:
            page = {"service": act.service, "found": None, "wrong": str(error)}
            return pages.render(request, "loss.html", 422, **page)
        return RedirectResponse("/overview", 303)


def _add_clocks(routes: APIRouter, pages: Pages, log: EventLog) -> None:
    @routes.get("/reset-clock")
    @allow(Role.OPERATOR)
    async def preview_clock(request: Request, service: Annotated[str, Query(max_length=200)]) -> Response:
        found, wrong = None, ""
        try:
            found = await ClockReset(service=service, dry_run=True).perform(Desk(log, ""))
        except EventlibError as error:
            wrong = str(error)
        return pages.render(
            request, "reset_clock.html", 422 if wrong else 200, service=service, found=found, wrong=wrong
        )

    @routes.post("/reset-clock")
    @allow(Role.OPERATOR)
    async def reset_clock(request: Request, form: OwnForm, caller: Caller) -> Response:
        act = form.act(ClockReset)
        done = await act.perform(Desk(log, caller.by))
        return pages.render(request, "reset_clock_done.html", service=act.service, tasks=done.plans)
