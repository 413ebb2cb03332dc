"""The page of one saga: its swimlane and timeline, its causes, what it waits for, its effects, and any of its moments."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.moments import moment_of
from eventlib.console.reading import SagaReader, StatusWatch
from eventlib.console.rendering import Pages
from eventlib.console.swimlane import Scale, swimlane
from eventlib.errors import EventlibError
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, allow
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.saga import Saga, SagaEvent
from eventlib.model.saga_folds import Fold, branches, rows
from eventlib.queries.parked import Parking, parked_of, waiting_inputs
from eventlib.replay.amendments import amendments_of
from eventlib.search.saga_search import SagaSearch
from eventlib.values import now_ms, to_ms

_PARKED_SHOWN = 20
View = Literal["timeline", "tree", "effects"]


@dataclass(frozen=True, slots=True)
class EffectLine:
    """An effect of a saga: its request, whose id is the key that the outside world sees, and what came of it."""

    request: SagaEvent
    asks: str
    attempts: int | None
    answer: SagaEvent | None
    took_ms: int | None
    parking: Parking | None


def saga_page_routes(
    pages: Pages, reader: SagaReader, search: SagaSearch, watch: StatusWatch, trace_url: str | None = None
) -> APIRouter:
    """Return the routes of one saga."""
    routes = APIRouter()

    async def known(key: str, caller: Caller) -> Saga:
        saga = await reader.saga(key, personal=caller.sees_personal)
        if saga is None:
            raise Refusal(404, "unknown-saga", f"no event on this log has the key {key}")
        return saga

    @routes.get(f"/saga/{KEY}")
    @allow(*READERS)
    async def show(  # noqa: PLR0913, PLR0917  one argument for each part of the address
        request: Request,
        key: str,
        caller: Caller,
        view: View = "timeline",
        scale: Scale = "time",
        all: bool = False,  # noqa: A002  the query has this name
        at: Annotated[int | None, Query(ge=0)] = None,
    ) -> Response:
        saga = await known(key, caller)
        found = search.one(key)
        is_parked = found is None or any(wait["kind"] == "parked" for wait in found["waits"])
        parked = parked_of(saga, await watch.parked()) if is_parked else []
        stuck = {each.id or await _first_waiting(reader.log, each) for each in parked[:_PARKED_SHOWN]}
        effects = effects_of(saga, reader.log.choreography, parked)
        is_overdue = found is not None and found["status"] == "overdue"
        matters, why = what_matters(saga, stuck, effects, is_overdue=is_overdue)
        until_ms = now_ms() - to_ms(saga.started_at)
        trace = None if trace_url is None else await reader.trace_of(saga)
        return pages.render(
            request,
            "saga.html",
            saga=saga,
            chosen={"view": view, "scale": scale, "all": all, "at": at},
            found=found,
            matters=matters,
            why=why,
            number=matters if at is None else min(at, len(saga.events)) or len(saga.events),
            picture=swimlane(saga, reader.log.choreography, scale, until_ms, fold=not all, parked=stuck),
            lines=[*_tree(saga, fold=not all)] if view == "tree" else [(0, each) for each in rows(saga, fold=not all)],
            news=saga.news(),
            numbers={event.record.event_id: event.number for event in saga.events},
            effects=effects,
            parked=parked,
            amended=await amendments_of(reader.log, saga),
            elapsed_ms=until_ms,
            trace="" if trace is None else (trace_url or "").replace("{trace_id}", trace),
        )

    @routes.get(f"/moment/{KEY}")
    @allow(*READERS)
    async def moment(request: Request, key: str, caller: Caller, at: Annotated[int, Query(ge=0)] = 0) -> Response:
        saga = await known(key, caller)
        number = min(at, len(saga.events)) or len(saga.events)
        try:
            found = moment_of(saga, await reader.histories(saga), number, personal=caller.sees_personal)
        except EventlibError as error:
            return pages.render(request, "moment.html", deciders=[], error=str(error), saga=saga, number=number)
        return pages.render(request, "moment.html", deciders=found, error="", saga=saga, number=number)

    return routes


def what_matters(
    saga: Saga, parked: Collection[str], effects: Sequence[EffectLine], *, is_overdue: bool
) -> tuple[int, str]:
    """Return the number of the event to look at first, and what it is.

    What is parked, else the first failure, else what was asked and not answered, else the end, or the last event so far.
    """
    found = [
        *((event.number, "parked") for event in saga.events if event.record.event_id in parked),
        *((event.number, "the first failure") for event in saga.events if event.role == "failure"),
        *((each.request.number, "not answered yet") for each in effects if each.answer is None and not saga.ended),
        *((event.number, "the end") for event in saga.events if event is saga.ending),
    ]
    return next(iter(found), (len(saga.events), "overdue since" if is_overdue else "the last so far"))


async def _first_waiting(log: EventLog, parking: Parking) -> str:
    """Return the id of the input that a key is parked with."""
    return "".join([each.record.event_id for each in await waiting_inputs(log, parking, limit=1)])


def _tree(saga: Saga, *, fold: bool) -> Iterator[tuple[int, Fold]]:
    pending = [(0, branch) for branch in reversed(branches(saga.roots, fold=fold))]
    seen = set[str]()
    while pending:
        depth, branch = pending.pop()
        yield depth, branch
        ids = {event.record.event_id for event in branch.events} - seen
        seen |= ids  # ids that others gave may go round in a circle
        below = [child for event in branch.events if event.record.event_id in ids for child in saga.caused_by(event)]
        pending += [(depth + 1, each) for each in reversed(branches(below, fold=fold))]


def effects_of(saga: Saga, choreography: Choreography, parked: Sequence[Parking]) -> Sequence[EffectLine]:
    """Return the effects of a saga, in the order of their requests."""
    known = {
        contract_of(request).type: effect
        for decider in choreography.deciders
        for request, effect in decider.effects.items()
    }
    waits = {each.id: each for each in parked if each.id}
    found = list[EffectLine]()
    for event in saga.events:
        effect = known.get(event.type)
        if effect is not None:
            answers = {contract_of(each).type for each in effect.emits}
            answer = next((each for each in saga.caused_by(event) if each.type in answers), None)
            took = None if answer is None else answer.after_ms - event.after_ms
            parking = waits.get(event.record.event_id)
            found.append(EffectLine(event, effect.asks, effect.ask.retry.attempts, answer, took, parking))
    return found
