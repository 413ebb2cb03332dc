"""Acts on sagas that were chosen in their list: first what they would come to and what is left out, then the acts themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from eventlib.console.forms import Form, OwnForm
from eventlib.console.parked_acts import Batches
from eventlib.console.parked_page import ACTS, TRIED, summary_of
from eventlib.console.rendering import Pages
from eventlib.console.saga_list import MOST_ACTS
from eventlib.errors import ContractError
from eventlib.http.gate import Caller
from eventlib.identity.principal import Principal, Role, allow
from eventlib.operations.act import Desk
from eventlib.operations.parked_acts import ParkedOutcome
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.runtime.records import changelog_key
from eventlib.search.saga_search import SagaQuery, SagaSearch

_MOST_PAUSED = 50
_PAUSES: Mapping[str, type[Pause | Resume]] = {"pause": Pause, "resume": Resume}
_PARKED = """
SELECT saga, service, decider, key, origin, kind FROM _waits
WHERE kind IN ('parked', 'paused') AND saga IN (SELECT value FROM json_each(?))
"""
Name = tuple[str, str, str]


@dataclass
class Prospect:
    """An act on some sagas: what it comes to, and what is left out, each with why; `done` of those that were done."""

    act: str
    sagas: Sequence[str]
    left_out: list[tuple[str, str]] = field(default_factory=list)
    summary: Mapping[str, Any] | None = None
    tokens: dict[str, str] = field(default_factory=dict)
    done: bool = False


class SagaActs:
    """Finds what the acts on sagas are about, by the index of their list."""

    def __init__(self, search: SagaSearch, batches: Batches) -> None:
        self.search, self.log, self.batches = search, search.log, batches
        app = self.log.choreography
        own = [
            (service.name, each.name)
            for service in app.services
            for each in service.deciders
            if each.key == app.saga_field
        ]
        self.places = own

    async def chosen(self, form: Form) -> Prospect:
        """Return the sagas that a form is about, and which of them are too many. Raises: ContractError for none, or a wrong query."""
        act, keys, more = form.get("act"), form.all("chosen"), False
        if act not in {*ACTS, *_PAUSES}:
            raise ContractError("act: choose one of retry, discard, pause, resume")
        if form.get("which") == "all":
            page = await self.search.full_page(SagaQuery(form.get("where"), form.get("order_by"), MOST_ACTS))
            keys, more = [str(each["saga"]) for each in page.sagas], page.next is not None
        if not keys:
            raise ContractError("choose sagas, or all that the query finds")
        found = Prospect(act, keys[:MOST_ACTS])
        if more or keys[MOST_ACTS:]:
            found.left_out.append(
                ("more sagas", f"an act is about {MOST_ACTS} at most: these are the first in the list's order")
            )
        return found

    def parked(self, sagas: Sequence[str]) -> dict[Name, str]:
        """Return what of sagas is parked, by its name, with its saga."""
        found = dict[Name, str]()
        for saga, service, decider, key, origin, kind in self.search.rows(_PARKED, (to_json(sagas).decode(),)):
            about = changelog_key(origin)
            if about.kind == "parked":
                found[service, decider, key] = saga
            elif kind == "parked":
                found[service, "", about.key] = saga
        return found

    async def try_parked(self, about: Prospect) -> None:
        """Find out what a retry or a discard would come to; nothing is written."""
        names = self.parked(about.sagas)
        act = ACTS[about.act][1].of({"names": [*names], "most_tried": TRIED, "dry_run": True})
        seen: ParkedOutcome = await act.perform(Desk(self.log, ""))
        about.summary, about.tokens = summary_of(seen), {"as_previewed": seen.token}
        about.left_out += [(names[each.parking.name], each.why) for each in seen.chosen.left_out]
        there = {names[each.name] for each in seen.chosen.ready} | {saga for saga, _ in about.left_out}
        about.left_out += [(saga, "nothing of it is parked") for saga in about.sagas if saga not in there]

    async def pause(self, about: Prospect, form: Form, caller: Principal | None = None) -> None:
        """Pause or resume the keys of sagas, each in every decider or in the one that the form names; without a caller, try it."""
        decider = form.get("decider")
        places = [place for place in self.places if decider in {"", "/".join(place)}]
        pairs = [(saga, place) for saga in about.sagas for place in places]
        for saga, place in pairs[:_MOST_PAUSED]:
            name = "/".join((*place, saga))
            given = {"service": place[0], "decider": place[1], "key": saga}
            token = {"as_previewed": form.get(f"token.{name}")} if caller else {"dry_run": True}
            kind = _PAUSES[about.act]
            try:
                act = form.act(kind, **given, **token) if caller else kind.of({**given, **token})
                about.tokens[name] = (await act.perform(Desk(self.log, caller.by if caller else ""))).token
            except ContractError as error:
                about.left_out.append((f"{saga} in {place[1]}", str(error)))
        if len(pairs) > _MOST_PAUSED:
            left = len(pairs) - _MOST_PAUSED
            about.left_out.append((f"{left:,} more keys", f"{_MOST_PAUSED} are paused or resumed at once"))
        about.done = caller is not None


def saga_act_routes(pages: Pages, acts: SagaActs) -> APIRouter:
    """Return the route of acts on sagas."""
    routes = APIRouter()

    @routes.post("/sagas/acts")
    @allow(Role.OPERATOR)
    async def act(request: Request, form: OwnForm, caller: Caller) -> Response:
        about, wrong = await acts.chosen(form), ""
        is_sent, is_pause = form.get("step") == "do", about.act in _PAUSES
        if is_sent:
            try:
                form.reason()
                if not is_pause:
                    given = {"names": [*acts.parked(about.sagas)], "most_tried": TRIED}
                    sure = form.get("sure") if about.act == "discard" else None
                    return await acts.batches.begin(about.act, form.act(ACTS[about.act][1], **given), caller, sure)
            except ContractError as error:
                wrong = str(error)
        if is_pause:
            await acts.pause(about, form, caller if is_sent and not wrong else None)
        else:
            await acts.try_parked(about)
        shown = {"about": about, "wrong": wrong, "decider": form.get("decider"), "places": acts.places}
        return pages.render(request, "saga_acts.html", 422 if wrong else 200, **shown)

    return routes
