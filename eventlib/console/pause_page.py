"""The pages that pause a part of a service, set a limit, or move its offsets and clock: counted before anything is done."""

from contextlib import suppress
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Role, allow
from eventlib.model.event import contract_of
from eventlib.operations.act import Desk
from eventlib.operations.clock_reset import ClockReset
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.operations.pausing import paused, what_waits
from eventlib.operations.reprocessing.jobs import RerunJobs, outlook
from eventlib.operations.rerun_acts import RerunOutcome
from eventlib.operations.reset_acts import AcceptLoss, Reset, SeekOutcome
from eventlib.queries.pauses import PauseTarget

Name = Annotated[str, Query(max_length=1_000)]
_PATIENCE_S = 2.0


def pause_routes(pages: Pages, log: EventLog) -> APIRouter:
    """Return the routes of pauses."""
    routes = APIRouter()

    @routes.get("/pause")
    @allow(Role.OPERATOR)
    async def preview(request: Request, service: Name, what: Name = "", key: Name = "") -> Response:
        return await _page(request, pages, log, service, what, key)

    @routes.post("/pause")
    @allow(Role.OPERATOR)
    async def act(request: Request, form: OwnForm, caller: Caller) -> Response:
        service, what, key = form.get("service"), form.get("what"), form.get("key")
        kind: type[Pause | Resume] = Resume if form.get("act") == "resume" else Pause
        try:
            done = await form.act(kind, **_named(what, key)).perform(Desk(log, caller.by, _PATIENCE_S))
        except EventlibError as error:
            return await _page(request, pages, log, service, what, key, str(error))
        return RedirectResponse(f"/pause?{query_of(done.target)}", 303)

    return routes


def query_of(target: PauseTarget) -> str:
    """Return the query of the page about a part of a service."""
    named = {"limit": target.limit, "effect": target.effect, "decider": target.decider}
    what = next((f"{kind}:{name}" for kind, name in named.items() if name), "")
    return urlencode({"service": target.service, "what": what, "key": target.key or ""})


async def _page(  # noqa: PLR0913, PLR0917  what the form has, and how it went
    request: Request, pages: Pages, log: EventLog, service: str, what: str, key: str, wrong: str = ""
) -> Response:
    of = log.choreography.service(service)
    target, waits, known, released = PauseTarget(service), None, None, None
    try:
        act, desk = Resume.of({"service": service, **_named(what, key)}), Desk(log, "")
        target = await act.select(desk)
        waits, known = await what_waits(log, target), await paused(log, target)
        with suppress(ContractError):  # what cannot go on yet has no outcome
            released = (await act.preview(desk, target)).released
    except EventlibError as error:
        wrong = wrong or str(error)
    kinds = {contract_of(request).type for each in of.deciders for request in each.effects}
    choices = [("", "all of it")]
    choices += [(f"decider:{each.name}", f"decider {each.name}") for each in of.deciders]
    choices += [(f"effect:{each}", f"effect {each}") for each in sorted(kinds)]
    choices += [(f"limit:{each}", f"limit {each}") for each in sorted(of.limits)]
    about = {"service": service, "what": what, "key": key, "choices": choices, "wrong": wrong}
    declared = of.limits.get(target.limit)
    shown = {"target": target, "waits": waits, "paused": known, "released": released, "declared": declared}
    return pages.render(request, "pause.html", 422 if wrong else 200, **about, **shown)


def _named(what: str, key: str) -> dict[str, str | None]:
    """Return the fields of an act on a part of a service."""
    kind, _, name = what.partition(":")
    return {"key": key or None, **({kind: name} if kind in {"decider", "effect", "limit"} else {})}


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
