"""The page that pauses a part of a service, or sets a limit, and has it go on: what waits is counted before anything is done."""

from contextlib import suppress
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.identity.principal import Role, allow
from eventlib.model.event import contract_of
from eventlib.operations.act import Desk
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.operations.pausing import paused, what_waits
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
