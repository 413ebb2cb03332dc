"""The page that pauses a part of a service, or sets a limit, and has it go on: what waits is counted before anything is done."""

import re
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.forms import Form, OwnForm
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.identity.principal import Role, allow
from eventlib.model.event import contract_of
from eventlib.operations.pause_preview import preview_pause
from eventlib.operations.pausing import Numbers, pause, paused, resume, settled, what_waits
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
        try:
            target = _target(log, service, what, key)
            if form.get("act") == "resume":
                await resume(log, target, caller.by, form.reason())
            else:
                await pause(log, target, caller.by, form.reason(), _numbers(form))
        except EventlibError as error:
            return await _page(request, pages, log, service, what, key, str(error))
        await settled(log, target, _PATIENCE_S)
        return RedirectResponse(f"/pause?{query_of(target)}", 303)

    return routes


def query_of(target: PauseTarget) -> str:
    """Return the query of the page about a part of a service."""
    named = {"limit": target.limit, "effect": target.effect, "decider": target.decider}
    what = next((f"{kind}:{name}" for kind, name in named.items() if name), "")
    return urlencode({"service": target.service, "what": what, "key": target.key or ""})


def _numbers(form: Form) -> Numbers:
    """Return the numbers for a limit; a field that is empty, or not there, stands for the declared one. Raises: ContractError."""
    found = {name: form.get(name).strip() or "0" for name in Numbers._fields}
    if not all(re.fullmatch(r"\d{1,9}(\.\d{1,6})?", text) for text in found.values()):
        raise ContractError("per_second, burst and concurrent are numbers above 0; leave empty what stays as declared")
    if "." in found["burst"] + found["concurrent"]:
        raise ContractError("burst and concurrent are whole numbers")
    return Numbers(float(found["per_second"]), int(found["burst"]), int(found["concurrent"]))


async def _page(  # noqa: PLR0913, PLR0917  what the form has, and how it went
    request: Request, pages: Pages, log: EventLog, service: str, what: str, key: str, wrong: str = ""
) -> Response:
    of = log.choreography.service(service)
    target, waits, known, released = PauseTarget(service), None, None, None
    try:
        target = _target(log, service, what, key)
        waits, known = await what_waits(log, target), await paused(log, target)
        with suppress(ContractError):  # what cannot go on yet has no outcome
            released = (await preview_pause(log, target, "resume")).released
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


def _target(log: EventLog, service: str, what: str, key: str) -> PauseTarget:
    kind, _, name = what.partition(":")
    decider, effect, limit = (name if kind == each else None for each in ("decider", "effect", "limit"))
    return PauseTarget.of(log, service, decider=decider, effect=effect, key=key or None, limit=limit)
