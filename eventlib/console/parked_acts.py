"""Acts on parked inputs, and on sagas that were chosen in their list; each with a reason, and followed until it is done."""

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
from eventlib.console.parked_page import ACTS, TRIED, chosen_one, shown, summary_of
from eventlib.console.rendering import Pages, path_of
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.json_form import json_of
from eventlib.model.event import Event
from eventlib.operations.act import Desk
from eventlib.operations.parked_acts import Edit, ParkedAct, ParkedOutcome
from eventlib.operations.parked_commands import event_with, first_waiting
from eventlib.operations.saga_acts import MOST_SAGAS, PARKED, PAUSES, SagaActs, SagasAct
from eventlib.queries.parked import Parking
from eventlib.search.saga_search import SagaQuery, SagaSearch

_KEPT = 200
_ONE = f"/parked/{{service}}/{{decider}}/{KEY}"


@dataclass(frozen=True, slots=True)
class Batch:
    """Acts of one form: what was done, by whom and why, and how far they are."""

    what: str
    by: str
    reason: str
    done: ParkedOutcome


class Batches:
    """The last acts of this console, by id: a page follows them. The log has them all."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self._known = OrderedDict[str, Batch]()

    async def begin(self, what: str, act: ParkedAct, caller: Principal, sure: str | None = None) -> Response:
        """Do an act, and return the way to the page that follows it; `sure` is the number that was written, where one has to be.

        Raises: as the act; Refusal for another number than that of what it is about.
        """

        def confirm(seen: ParkedOutcome) -> None:
            if sure != str(count := len(seen.chosen.ready) + len(seen.chosen.left_out)):
                detail = f"this is about {count}: write that number, since what is discarded does not come back"
                raise Refusal(422, "unsure", detail)

        done = await act.perform(Desk(self.log, caller.by), None if sure is None else confirm)
        name = token_urlsafe(12)
        self._known[name] = Batch(what, caller.by, act.reason, done)
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


def parked_act_routes(pages: Pages, batches: Batches) -> APIRouter:
    """Return the routes that act on what is parked, and the page that follows acts."""
    routes = APIRouter()
    for what in ACTS:
        _add_act(routes, what, batches)
    _add_edit(routes, pages, batches)
    _add_following(routes, pages, batches)
    return routes


def _add_act(routes: APIRouter, what: str, batches: Batches) -> None:
    one, many = ACTS[what]

    @routes.post(f"/parked/group/{{cause}}/{what}")
    @allow(Role.OPERATOR)
    async def act_on_group(cause: str, form: OwnForm, caller: Caller) -> Response:
        names = None if form.get("which") == "all" else [_name(each) for each in form.all("chosen")]
        token = form.get(f"as_previewed.{what}")
        act = form.act(many, cause=cause, names=names, most_tried=TRIED, as_previewed=token)
        return await batches.begin(what, act, caller, form.get("sure") if what == "discard" else None)

    @routes.post(f"{_ONE}/{what}")
    @allow(Role.OPERATOR)
    async def act_on_one(service: str, decider: str, key: str, form: OwnForm, caller: Caller) -> Response:
        return await batches.begin(what, form.act(one, service=service, decider=decider, key=key), caller)


def _add_edit(routes: APIRouter, pages: Pages, batches: Batches) -> None:
    log = batches.log

    @routes.post(f"{_ONE}/edit")
    @allow(Role.OPERATOR)
    async def edit(request: Request, service: str, decider: str, key: str, form: OwnForm, caller: Caller) -> Response:
        about = await chosen_one(log, service, decider, key)
        content = await shown(log, about, caller)
        content["form"], content["difference"], content["wrong"] = form, None, ""
        names = {"service": service, "decider": decider, "key": key}
        try:
            given, content["difference"] = await _edited(log, about.ready[0], content["fields"], form)
            if form.get("step") == "send":
                return await batches.begin("edit", form.act(Edit, **names, **given), caller)
        except ContractError as error:
            content["wrong"] = str(error)
            return pages.render(request, "parked_one.html", 422, **content)
        content |= await shown(log, about, caller, Edit.of({**names, **given}))
        return pages.render(request, "parked_one.html", **content)


def _add_following(routes: APIRouter, pages: Pages, batches: Batches) -> None:
    @routes.get("/parked/batch/{name}")
    @allow(*READERS)
    async def batch(request: Request, name: str) -> Response:
        found = batches.named(name)
        outcomes = found.done.outcomes
        assert outcomes is not None  # noqa: S101  it was done
        left = await outcomes.refresh()
        return pages.render(
            request,
            "parked_batch.html",
            batch=found,
            requests=found.done.requests,
            left_out=found.done.chosen.left_out,
            left=left,
            outcomes=Counter(outcomes.all),
            lines=[*zip(found.done.requests, outcomes.all, strict=True)][:200],
            again=list(outcomes.parked_again.values()),
        )


def _name(text: str) -> object:
    try:
        return from_json(text)
    except ValueError as error:
        raise Refusal(422, "invalid", "the form names something that cannot be parked") from error


async def _edited(
    log: EventLog, parking: Parking, fields: Sequence[EditField], form: Form
) -> tuple[dict[str, Any], Sequence[tuple[str, Any, Any]]]:
    """Return what a form changes about a parked input, and how that differs. Raises: ContractError."""
    first = await first_waiting(log, parking)
    before = json_of(first.reading.value) if isinstance(first.reading.value, Event) else {}
    after = values_in(fields, form.under("field."), form.under("none."))
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    event = await event_with(log, parking, None if before else after, changed)
    return {"data": None if before else after, "set": changed}, differences(before, json_of(event))


def saga_act_routes(pages: Pages, search: SagaSearch, batches: Batches) -> APIRouter:
    """Return the route of acts on sagas."""
    routes, acts = APIRouter(), SagaActs(search)

    @routes.post("/sagas/acts")
    @allow(Role.OPERATOR)
    async def act(request: Request, form: OwnForm, caller: Caller) -> Response:
        about, wrong, is_sent, decider = await _chosen(search, form), "", form.get("step") == "do", form.get("decider")
        if is_sent:
            try:
                form.reason()
                if about.act in PARKED:
                    given = {"names": [*acts.parked(about.sagas)], "most_tried": TRIED}
                    sure = form.get("sure") if about.act == "discard" else None
                    return await batches.begin(about.act, form.act(PARKED[about.act], **given), caller, sure)
            except ContractError as error:
                wrong = str(error)
        if about.act in PAUSES:
            by = caller.by if is_sent and not wrong else ""
            await acts.pause(about, decider, form.under("token."), form.get("reason"), by)
        else:
            await acts.try_parked(about, TRIED)
        summary = None if about.outcome is None else summary_of(about.outcome)
        shown = {"about": about, "summary": summary, "wrong": wrong, "decider": decider, "places": acts.places}
        return pages.render(request, "saga_acts.html", 422 if wrong else 200, **shown)

    return routes


async def _chosen(search: SagaSearch, form: Form) -> SagasAct:
    """Return the act that a form asks for. Raises: ContractError for a wrong query, and as `SagasAct`."""
    if form.get("which") != "all":
        return SagasAct(form.get("act"), form.all("chosen"))
    page = await search.full_page(SagaQuery(form.get("where"), form.get("order_by"), MOST_SAGAS))
    return SagasAct(form.get("act"), [str(each["saga"]) for each in page.sagas], page.next is not None)
