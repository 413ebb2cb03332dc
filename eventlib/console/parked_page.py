"""The pages of what is parked: in groups by cause, and one by one, with what today's code would make of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.edit_form import EditField, fields_of
from eventlib.console.reading import StatusWatch, as_seen
from eventlib.console.rendering import Pages
from eventlib.errors import ContractError, EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.json_form import json_of
from eventlib.model.event import Event, contract_of
from eventlib.model.record import key_text
from eventlib.operations.dry_run import token_of
from eventlib.operations.parked_groups import ParkedGroup, grouped
from eventlib.operations.parked_preview import (
    Preview,
    preview_discards,
    preview_edit,
    preview_retries,
    token_of_previews,
    unknown,
)
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, named, waiting_inputs
from eventlib.search.parked import OF_PARKED, parked_where

_INPUTS = 20
_MEMBERS = 200
_TRIED = 50
_ACTS = ("retry", "discard")


class ParkedReader:
    """Reads what is parked, as it is now."""

    def __init__(self, log: EventLog, watch: StatusWatch) -> None:
        self.log = log
        self._watch = watch

    async def all(self, wanted: ParkedQuery | None = None) -> Sequence[Parking]:
        """Return what is parked and wanted, the oldest first."""
        found = await self._watch.parked()
        return found if wanted is None else [each for each in found if wanted.has(each)]

    async def group(self, fingerprint: str) -> ParkedGroup:
        """Return a group. Raises: Refusal when nothing of it is parked any more."""
        found = next((each for each in grouped(await self.all()) if each.fingerprint == fingerprint), None)
        if found is None:
            raise Refusal(404, "unknown-group", "nothing is parked for this cause any more")
        return found

    async def one(self, service: str, decider: str, key: str) -> Parking:
        """Return what is parked under a decider's key, or an effect by its id. Raises: Refusal."""
        found = named([each for each in await self.all() if (each.service, each.decider) == (service, decider)], key)
        if not found:
            raise Refusal(
                404, "not-parked", f"nothing is parked for {decider} {key}: it may have been handled meanwhile"
            )
        return found[0]

    async def previews(self, found: Sequence[Parking], act: str) -> Sequence[Preview]:
        """Return what would come of retries, or discards, of the first ones; where that fails, why it is not known."""
        preview = preview_discards if act == "discard" else preview_retries
        try:
            return await preview(self.log, found[:_TRIED])
        except EventlibError as error:
            return [unknown(each, error) for each in found[:_TRIED]]

    async def previewed(self, parking: Parking, act: str, instead: Event | None = None) -> Preview:
        """Return what would come of a retry, a discard or an edit; see `previews`."""
        if instead is None:
            return (await self.previews([parking], act))[0]
        try:
            return await preview_edit(self.log, parking, instead)
        except EventlibError as error:
            return unknown(parking, error)


def parked_routes(pages: Pages, reader: ParkedReader) -> APIRouter:
    """Return the routes that show what is parked."""
    routes = APIRouter()

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
            wanted = ParkedQuery.of(reader.log, *chosen, reason or None)
            found += await reader.all(replace(wanted, condition=parked_where(where)) if where.strip() else wanted)
        except ContractError as error:
            wrong = str(error)
        app = reader.log.choreography
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
        found = await reader.group(fingerprint)
        return pages.render(request, "parked_group.html", group=found, most=_MEMBERS)

    @routes.get("/parked/preview/{fingerprint}")
    @allow(*READERS)
    async def group_preview(request: Request, fingerprint: str) -> Response:
        found = await reader.group(fingerprint)
        seen = {act: await reader.previews(found.members, act) for act in _ACTS}
        acts = {act: summary_of(previews, len(found.members)) for act, previews in seen.items()}
        tokens = {act: token_of_group(found, previews) for act, previews in seen.items()}
        return pages.render(request, "parked_preview.html", acts=acts, tokens=tokens)

    @routes.get(f"/parked/{{service}}/{{decider}}/{KEY}")
    @allow(*READERS)
    async def one(request: Request, service: str, decider: str, key: str, caller: Caller) -> Response:
        parking = await reader.one(service, decider, key)
        return pages.render(
            request, "parked_one.html", **await shown(reader, parking, caller), form=None, wrong="", difference=None
        )

    return routes


async def shown(
    reader: ParkedReader, parking: Parking, caller: Principal, instead: Event | None = None
) -> dict[str, Any]:
    """Return what the page of something parked shows; what would come of it if its first input was `instead`."""
    waiting = await waiting_inputs(reader.log, parking, _INPUTS)
    personal = caller.sees_personal
    acts = {} if instead is None else {"edit": await reader.previewed(parking, "edit", instead)}
    acts |= {act: await reader.previewed(parking, act) for act in _ACTS}
    return {
        "parking": parking,
        "inputs": [(each, as_seen(each.reading.value, personal=personal)) for each in waiting],
        "fields": _fields(reader, parking, waiting) if caller.has(Role.OPERATOR) else [],
        "previews": [
            (act, each, _as_seen(each.emitted, personal), _as_seen(each.overdue, personal))
            for act, each in acts.items()
        ],
        "tokens": {act: token_of_previews([each]) for act, each in acts.items() if each.prospect != "unknown"},
    }


def _as_seen(events: Sequence[Event], personal: bool) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return events as a caller may see them: their types, and their data."""
    seen = [as_seen(each, personal=personal) for each in events]
    return [(contract_of(type(each)).type, dict(each)) for each in seen if each is not None]


def _fields(reader: ParkedReader, parking: Parking, waiting: Sequence[WaitingInput]) -> Sequence[EditField]:
    """Return the fields of the first input's form; none for an effect, a deadline, and what others write."""
    first = waiting[0] if waiting else None
    external = reader.log.external.topics
    if parking.id is not None or first is None or not first.record.topic or first.record.topic in external:
        return []
    try:
        event_type = reader.log.choreography.event(first.record.type or "")
    except EventlibError:
        return []
    value, key = first.reading.value, contract_of(event_type).key
    known = {} if key is None else {key: key_text(first.record)}
    return fields_of(event_type, json_of(value) if isinstance(value, Event) else known)


def token_of_group(group: ParkedGroup, found: Sequence[Preview]) -> str:
    """Return what names a group's preview: its members, and the positions of those that were tried."""
    members = sorted((*map(str, each.name), str(each.first), str(each.waiting)) for each in group.members)
    return token_of("group", members, token_of_previews(found))


def summary_of(found: Sequence[Preview], of: int) -> Mapping[str, Any]:
    """Return what would come of many retries: how many of each kind, what they would emit, and why some park again."""
    prospects = Counter((each.prospect, each.would) for each in found)
    emitted = Counter(contract_of(type(event)).type for each in found for event in each.emitted)
    reasons = Counter(each.reason for each in found if each.prospect != "is handled")
    return {
        "prospects": prospects.most_common(),
        "emitted": emitted.most_common(),
        "reasons": reasons.most_common(8),
        "tried": len(found),
        "of": of,
    }
