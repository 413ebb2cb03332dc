"""The pages of what is parked: in groups by cause, and one by one, with what today's code would make of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.edit_form import EditField, fields_of
from eventlib.console.reading import StatusWatch, as_seen, records_behind
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.index.log_index import LogIndex
from eventlib.json_form import json_of
from eventlib.model.event import Event, contract_of
from eventlib.model.record import key_text
from eventlib.operations.act import Desk, NotThere
from eventlib.operations.parked_acts import Chosen, Discard, DiscardAll, Edit, ParkedAct, ParkedOutcome, Retry, RetryAll
from eventlib.operations.parked_groups import ParkedGroup, grouped
from eventlib.operations.parked_preview import unknown
from eventlib.operations.parked_traits import traits_of
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, waiting_inputs
from eventlib.search.parked import OF_PARKED, parked_where

_INPUTS = 20
_MEMBERS = 200
TRIED = 50
"""How many of a group are tried for its page."""
ACTS: Mapping[str, tuple[type[Retry | Discard], type[RetryAll | DiscardAll]]] = {
    "retry": (Retry, RetryAll),
    "discard": (Discard, DiscardAll),
}
"""The acts on one, and on a group."""


async def chosen_one(log: EventLog, service: str, decider: str, key: str) -> Chosen:
    """Return what is parked under a decider's key, or an effect by its id. Raises: NotThere."""
    return await Retry(service=service, decider=decider, key=key).select(Desk(log, ""))


async def _tried(log: EventLog, act: ParkedAct, about: Chosen) -> ParkedOutcome:
    """Return what an act would come to; where that cannot be found out, why."""
    try:
        return await act.preview(Desk(log, ""), about)
    except EventlibError as error:
        return ParkedOutcome(log, about, [unknown(each, error) for each in about.ready[:TRIED]])


def parked_routes(pages: Pages, log: EventLog, watch: StatusWatch, index: LogIndex) -> APIRouter:
    """Return the routes that show what is parked."""
    routes = APIRouter()

    async def named(fingerprint: str) -> ParkedGroup:
        every = grouped(await watch.parked())
        if (found := next((each for each in every if each.fingerprint == fingerprint), None)) is None:
            raise NotThere("nothing is parked for this cause any more")
        return found

    @routes.get("/parked")
    @allow(*READERS)
    async def groups(
        request: Request,
        service: Annotated[list[str] | None, Query()] = None,
        decider: Annotated[list[str] | None, Query()] = None,
        reason: Annotated[str, Query(max_length=1_000)] = "",
        where: Annotated[str, Query(max_length=4_000)] = "",
    ) -> Response:
        chosen = [each for each in service or [] if each], [each for each in decider or [] if each]
        found, wrong = list[Parking](), ""
        try:
            wanted = ParkedQuery.of(log, *chosen, reason or None)
            wanted = replace(wanted, condition=parked_where(where)) if where.strip() else wanted
            found += filter(wanted.has, await watch.parked())
        except ContractError as error:
            wrong = str(error)
        app = log.choreography
        return pages.render(
            request,
            "parked.html",
            422 if wrong else 200,
            wrong=wrong,
            groups=grouped(found),
            count=len(found),
            chosen={"service": chosen[0], "decider": chosen[1], "reason": reason, "where": where},
            names=", ".join(each.name for each in OF_PARKED),
            services=[each.name for each in app.services],
            deciders=[each.name for each in app.deciders],
        )

    @routes.get("/parked/group/{fingerprint}")
    @allow(*READERS)
    async def group(request: Request, fingerprint: str) -> Response:
        return pages.render(request, "parked_group.html", group=await named(fingerprint), most=_MEMBERS)

    @routes.get("/parked/common/{fingerprint}")
    @allow(*READERS)
    async def common(request: Request, fingerprint: str) -> Response:
        traits = await traits_of(log, index, await named(fingerprint))
        return pages.render(request, "parked_common.html", traits=traits, behind=await records_behind(index))

    @routes.get("/parked/preview/{fingerprint}")
    @allow(*READERS)
    async def group_preview(request: Request, fingerprint: str) -> Response:
        acts = {what: many(cause=fingerprint, most_tried=TRIED, dry_run=True) for what, (_, many) in ACTS.items()}
        about = await acts["retry"].select(Desk(log, ""))
        seen = {what: await _tried(log, act, about) for what, act in acts.items()}
        found, tokens = {what: summary_of(each) for what, each in seen.items()}, {w: e.token for w, e in seen.items()}
        return pages.render(request, "parked_preview.html", acts=found, tokens=tokens)

    @routes.get(f"/parked/{{service}}/{{decider}}/{KEY}")
    @allow(*READERS)
    async def one(request: Request, service: str, decider: str, key: str, caller: Caller) -> Response:
        content = await shown(log, await chosen_one(log, service, decider, key), caller)
        return pages.render(request, "parked_one.html", **content, form=None, wrong="", difference=None)

    return routes


async def shown(log: EventLog, about: Chosen, caller: Principal, edit: Edit | None = None) -> dict[str, Any]:
    """Return what the page of something parked shows; also what would come of it by an edit."""
    (parking,), personal = about.ready, caller.sees_personal
    waiting = await waiting_inputs(log, parking, _INPUTS)
    names = {"service": parking.service, "decider": parking.decider, "key": parking.id or parking.key}
    acts: dict[str, ParkedAct] = {} if edit is None else {"edit": edit}
    acts |= {what: one.of({**names, "dry_run": True}) for what, (one, _) in ACTS.items()}
    seen = {what: await _tried(log, act, about) for what, act in acts.items()}
    previews = {what: each.previews[0] for what, each in seen.items()}
    return {
        "parking": parking,
        "inputs": [(each, as_seen(each.reading.value, personal=personal)) for each in waiting],
        "fields": _fields(log, parking, waiting) if caller.has(Role.OPERATOR) else [],
        "previews": [
            (what, each, _as_seen(each.emitted, personal), _as_seen(each.overdue, personal))
            for what, each in previews.items()
        ],
        "tokens": {what: each.token for what, each in seen.items() if previews[what].prospect != "unknown"},
    }


def _as_seen(events: Sequence[Event], personal: bool) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return events as a caller may see them: their types, and their data."""
    seen = [as_seen(each, personal=personal) for each in events]
    return [(contract_of(type(each)).type, dict(each)) for each in seen if each is not None]


def _fields(log: EventLog, parking: Parking, waiting: Sequence[WaitingInput]) -> Sequence[EditField]:
    """Return the fields of the first input's form; none for an effect, a deadline, and what others write."""
    first = waiting[0] if waiting else None
    external = log.external.topics
    if parking.id is not None or first is None or not first.record.topic or first.record.topic in external:
        return []
    try:
        event_type = log.choreography.event(first.record.type or "")
    except EventlibError:
        return []
    value, key = first.reading.value, contract_of(event_type).key
    known = {} if key is None else {key: key_text(first.record)}
    return fields_of(event_type, json_of(value) if isinstance(value, Event) else known)


def summary_of(seen: ParkedOutcome) -> Mapping[str, Any]:
    """Return what would come of many: how many of each kind, what they would emit, and why some park again, or are left out."""
    found, left_out = seen.previews, Counter(each.why for each in seen.chosen.left_out)
    prospects = Counter((each.prospect, each.would) for each in found)
    emitted = Counter(contract_of(type(event)).type for each in found for event in each.emitted)
    reasons = Counter(each.reason for each in found if each.prospect != "is handled") + left_out
    return {
        "prospects": [*prospects.most_common(), *([(("", "be left out"), left_out.total())] if left_out else [])],
        "emitted": emitted.most_common(),
        "reasons": reasons.most_common(8),
        "tried": len(found),
        "of": len(seen.chosen.ready),
    }
