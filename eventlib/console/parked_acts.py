"""What operators do about what is parked: retry, edit, discard; each with a reason, and followed until it is done."""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic_core import from_json

from eventlib.console.edit_form import EditField, differences, values_in
from eventlib.console.forms import Form, OwnForm
from eventlib.console.parked_page import ParkedReader, shown, token_of_group
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Role, allow
from eventlib.json_form import json_of
from eventlib.model.event import Event
from eventlib.operations.command_status import CommandQuery, Outcomes, send_retries
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.parked_commands import (
    LeftOut,
    apart_from_paused,
    event_with,
    first_waiting,
    request_discard,
    request_edit,
)
from eventlib.operations.parked_preview import token_of_previews
from eventlib.queries.parked import Parking

_KEPT = 200


@dataclass(frozen=True, slots=True)
class Batch:
    """Acts of one form: what was done, about what, by whom and why; and how far they are."""

    what: str
    by: str
    reason: str
    requests: Sequence[CommandQuery]
    left_out: Sequence[LeftOut]
    outcomes: Outcomes


class Batches:
    """The last acts of this console, by id: a page follows them. The log has them all."""

    def __init__(self, reader: ParkedReader) -> None:
        self._reader = reader
        self._known = OrderedDict[str, Batch]()

    def begin(
        self, what: str, by: str, reason: str, requests: Sequence[CommandQuery], left_out: Sequence[LeftOut] = ()
    ) -> Response:
        """Return the way to the page that follows some acts."""
        name = token_urlsafe(12)
        self._known[name] = Batch(what, by, reason, requests, left_out, Outcomes(self._reader.log, requests))
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return RedirectResponse(path_of("parked", "batch", name), 303)

    def named(self, name: str) -> Batch:
        """Return a batch. Raises: Refusal for one that this process does not know (any more)."""
        if name not in self._known:
            raise Refusal(
                404, "unknown-batch", "this console does not follow these acts any more: see the page of acts"
            )
        return self._known[name]


def parked_act_routes(pages: Pages, reader: ParkedReader) -> APIRouter:
    """Return the routes that act on what is parked, and the page that follows acts."""
    routes, batches = APIRouter(), Batches(reader)
    _add_group_acts(routes, reader, batches)
    _add_acts(routes, pages, reader, batches)
    _add_following(routes, pages, batches)
    return routes


def _add_group_acts(routes: APIRouter, reader: ParkedReader, batches: Batches) -> None:

    @routes.post("/parked/group/{fingerprint}/retry")
    @allow(Role.OPERATOR)
    async def retry_group(fingerprint: str, form: OwnForm, caller: Caller) -> Response:
        reason = form.reason()
        chosen, left_out = await _chosen(reader, fingerprint, form, "retry")
        requests, _ = await send_retries(reader.log, chosen, caller.by, reason)
        return batches.begin("retry", caller.by, reason, requests, left_out)

    @routes.post("/parked/group/{fingerprint}/discard")
    @allow(Role.OPERATOR)
    async def discard_group(fingerprint: str, form: OwnForm, caller: Caller) -> Response:
        reason = form.reason()
        found, left_out = await _chosen(reader, fingerprint, form, "discard")
        if form.get("sure") != str(count := len(found) + len(left_out)):
            raise Refusal(
                422,
                "unsure",
                f"this is about {count}: write that number, since what is discarded does not come back",
            )
        positions = [await request_discard(reader.log, each, caller.by, reason) for each in found]
        requests = [CommandQuery(each, place.offset) for each, place in zip(found, positions, strict=True)]
        return batches.begin("discard", caller.by, reason, requests, left_out)


def _add_acts(routes: APIRouter, pages: Pages, reader: ParkedReader, batches: Batches) -> None:
    one = f"/parked/{{service}}/{{decider}}/{KEY}"

    @routes.post(f"{one}/retry")
    @allow(Role.OPERATOR)
    async def retry(service: str, decider: str, key: str, form: OwnForm, caller: Caller) -> Response:
        reason, parking = form.reason(), await reader.one(service, decider, key)
        await _refuse_moved(reader, form, parking, "retry")
        requests, _ = await send_retries(reader.log, [parking], caller.by, reason)
        return batches.begin("retry", caller.by, reason, requests)

    @routes.post(f"{one}/discard")
    @allow(Role.OPERATOR)
    async def discard(service: str, decider: str, key: str, form: OwnForm, caller: Caller) -> Response:
        reason = form.reason()
        parking = await reader.one(service, decider, key)
        await _refuse_moved(reader, form, parking, "discard")
        place = await request_discard(reader.log, parking, caller.by, reason)
        return batches.begin("discard", caller.by, reason, [CommandQuery(parking, place.offset)])

    @routes.post(f"{one}/edit")
    @allow(Role.OPERATOR)
    async def edit(request: Request, service: str, decider: str, key: str, form: OwnForm, caller: Caller) -> Response:
        parking = await reader.one(service, decider, key)
        content = await shown(reader, parking, caller)
        content["form"], content["difference"], content["wrong"] = form, None, ""
        try:
            event, content["difference"] = await _edited(reader, parking, content["fields"], form)
            if form.get("step") == "send":
                await _refuse_moved(reader, form, parking, "edit", event)
                place = await request_edit(reader.log, parking, event, caller.by, form.reason())
                return batches.begin("edit", caller.by, form.reason(), [CommandQuery(parking, place.offset)])
        except ContractError as error:
            content["wrong"] = str(error)
            return pages.render(request, "parked_one.html", 422, **content)
        content |= await shown(reader, parking, caller, event)
        return pages.render(request, "parked_one.html", **content)


def _add_following(routes: APIRouter, pages: Pages, batches: Batches) -> None:
    @routes.get("/parked/batch/{name}")
    @allow(*READERS)
    async def batch(request: Request, name: str) -> Response:
        found = batches.named(name)
        left = await found.outcomes.refresh()
        again = list(found.outcomes.parked_again.values())
        return pages.render(
            request,
            "parked_batch.html",
            batch=found,
            left=left,
            outcomes=Counter(found.outcomes.all),
            lines=[*zip(found.requests, found.outcomes.all, strict=True)][:200],
            again=again,
        )


async def _refuse_moved(
    reader: ParkedReader, form: Form, parking: Parking, act: str, event: Event | None = None
) -> None:
    """Refuse an act that is not what its page has shown. Raises: ContractError."""
    if shown_as := form.get("as_previewed"):
        refuse_moved(shown_as, token_of_previews([await reader.previewed(parking, act, event)]))


async def _chosen(
    reader: ParkedReader, fingerprint: str, form: Form, act: str
) -> tuple[Sequence[Parking], Sequence[LeftOut]]:
    """Return the members of a group that a form has chosen (all, if it says so), and those of them that are paused.

    Raises: Refusal when there is none, or all are paused; ContractError when the group is not what its preview has shown.
    """
    group = await reader.group(fingerprint)
    if shown_as := form.get(f"as_previewed.{act}"):
        refuse_moved(shown_as, token_of_group(group, await reader.previews(group.members, act)))
    names = {_name(each) for each in form.all("chosen")}
    found = [each for each in group.members if form.get("which") == "all" or each.name in names]
    if not found:
        raise Refusal(422, "none-chosen", "choose what this is about, or all of it")
    ready, left_out = await apart_from_paused(reader.log, found)
    if not ready:
        raise Refusal(409, "paused", left_out[0].why)
    return ready, left_out


def _name(text: str) -> tuple[str, ...]:
    try:
        found: Any = from_json(text)
        return tuple(map(str, found))
    except (ValueError, TypeError) as error:
        raise Refusal(422, "invalid", "the form names something that cannot be parked") from error


async def _edited(
    reader: ParkedReader, parking: Parking, fields: Sequence[EditField], form: Form
) -> tuple[Event, Sequence[tuple[str, Any, Any]]]:
    """Return the event that a form makes of a parked input, and how it differs. Raises: ContractError."""
    first = await first_waiting(reader.log, parking)
    before = json_of(first.reading.value) if isinstance(first.reading.value, Event) else {}
    after = values_in(fields, form.under("field."), form.under("none."))
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    event = await event_with(reader.log, parking, None if before else after, changed)
    return event, differences(before, json_of(event))
