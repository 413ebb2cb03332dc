"""The page that sends an event from outside: a form made of its schema, and what it would put on the log."""

import asyncio
from collections import OrderedDict
from secrets import token_urlsafe
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.console.edit_form import fields_of, initial_values, values_in
from eventlib.console.forms import OwnForm
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.problems import Refusal
from eventlib.identity.principal import Role, allow
from eventlib.model.event import Event, Position, contract_of
from eventlib.operations.act import Desk
from eventlib.operations.sending import Send, is_sendable, refuse_facts

_KEPT = 200
_LONGEST_ONCE = 64


class _Sent:
    """Sends each form once, however often a browser sends it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._known = OrderedDict[str, Position]()
        self._sending = asyncio.Lock()

    async def send(self, once: str, act: Send, by: str) -> Position:
        """Send an event, or return where this form's event is already."""
        async with self._sending:
            if once not in self._known:
                place = (await act.perform(Desk(self._log, by))).place
                assert place is not None  # noqa: S101  it is no dry run
                self._known[once] = place
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return self._known[once]


def send_routes(pages: Pages, log: EventLog) -> APIRouter:
    """Return the routes that send events."""
    routes, sent = APIRouter(), _Sent(log)

    @routes.get("/send/{event_type}")
    @allow(Role.OPERATOR)
    async def show(request: Request, event_type: str) -> Response:
        content = _page(log, _sendable(log, event_type))
        return pages.render(request, "send.html", **content)

    @routes.post("/send/{event_type}")
    @allow(Role.OPERATOR)
    async def send(request: Request, event_type: str, form: OwnForm, caller: Caller) -> Response:
        wanted = _sendable(log, event_type)
        content = _page(log, wanted)
        once = form.get("once")[:_LONGEST_ONCE] or content["once"]
        content |= {"form": form, "once": once}
        try:
            about = {
                "event_type": event_type,
                "data": values_in(content["fields"], form.under("field."), form.under("none.")),
            }
            seen = await Send.of({**about, "dry_run": True}).perform(Desk(log, ""))
            if form.get("step") == "send":
                name = f"{caller.by} {once}"
                act = form.act(Send, **about, idempotency_key=f"console:{name}")
                place = await sent.send(name, act, caller.by)
                return RedirectResponse(path_of("record", place.topic, place.partition, place.offset), 303)
        except ContractError as error:
            content["wrong"] = str(error)
            return pages.render(request, "send.html", 422, **content)
        return pages.render(request, "send.html", **content | {"event": seen.event, "partition": seen.partition})

    return routes


def _sendable(log: EventLog, event_type: str) -> type[Event]:
    found = log.choreography.event(event_type)
    if not is_sendable(log.choreography, found):
        refuse_facts(log.choreography, found)
        raise Refusal(422, "external", f"{event_type} is written by others: it is not sent from here")
    return found


def _page(log: EventLog, event_type: type[Event]) -> dict[str, Any]:
    contract = contract_of(event_type)
    return {
        "name": contract.type,
        "topic": contract.topic.name,
        "about": (event_type.__doc__ or "").strip(),
        "handled_by": [each.name for each in log.choreography.deciders if event_type in each.handlers],
        "fields": fields_of(event_type, initial_values(event_type)),
        "once": token_urlsafe(12),
        "form": None,
        "wrong": "",
        "event": None,
        "partition": None,
    }
