"""The page of one saga: its swimlane and timeline, its causes, what it waits for, its effects, and any of its moments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.moments import moment_of
from eventlib.console.reading import SagaReader, StatusWatch
from eventlib.console.rendering import Pages
from eventlib.console.swimlane import Scale, swimlane
from eventlib.errors import EventlibError
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.http.problems import Refusal
from eventlib.identity.principal import READERS, allow
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.saga import Saga, SagaEvent
from eventlib.model.saga_folds import Fold, branches, rows
from eventlib.queries.parked import Parking, parked_of
from eventlib.replay.amendments import amendments_of
from eventlib.search.saga_search import SagaSearch
from eventlib.values import now_ms, to_ms

_FOLDED_FROM = 80
MARKS = {"step": "", "failure": "✗", "compensation": "↩"}
View = Literal["timeline", "tree", "effects"]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the timeline or of the tree: an event, or several of one type, from the number `first` on."""

    fold: Fold
    number: int
    cause: int | None
    latency_ms: int | None
    news: Mapping[str, object]
    depth: int = 0

    @property
    def event(self) -> SagaEvent:
        """The event that stands for all."""
        return self.fold.first

    @property
    def mark(self) -> str:
        """The sign of what it is for the saga."""
        return "■" if self.event.ends else MARKS[self.event.role]


@dataclass(frozen=True, slots=True)
class EffectLine:
    """An effect of a saga: its request, whose id is the key that the outside world sees, and what came of it."""

    request: SagaEvent
    number: int
    asks: str
    attempts: int | None
    answer: SagaEvent | None
    took_ms: int | None
    parking: Parking | None


@dataclass(frozen=True, slots=True)
class SagaView:
    """How a saga is looked at: which part, to which scale, folded or not, and after which of its events (0: now)."""

    view: View = "timeline"
    scale: Scale = "steps"
    all: bool = False
    at: int = 0


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
        scale: Scale = "steps",
        all: bool = False,  # noqa: A002  the query has this name
        at: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        saga = await known(key, caller)
        chosen = SagaView(view, scale, all or len(saga.events) <= _FOLDED_FROM, min(at, len(saga.events)))
        found = search.one(key)
        is_parked = found is None or any(wait["kind"] == "parked" for wait in found["waits"])
        parked = parked_of(saga, await watch.parked()) if is_parked else []
        lines = _lines(saga, chosen)
        until_ms = now_ms() - to_ms(saga.started_at)
        trace = None if trace_url is None else await reader.trace_of(saga)
        return pages.render(
            request,
            "saga.html",
            saga=saga,
            chosen=chosen,
            found=found,
            picture=swimlane(saga, reader.log.choreography, scale, until_ms),
            lines=lines,
            effects=effects_of(saga, reader.log.choreography, parked),
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


def _lines(saga: Saga, chosen: SagaView) -> Sequence[Row]:
    numbers = {event.record.event_id: at + 1 for at, event in enumerate(saga.events)}
    news = saga.news()
    whole = _Lines(numbers, news)
    if chosen.view == "tree":
        return [*_tree(saga, whole, fold=not chosen.all)]
    return [whole.row(fold) for fold in rows(saga, fold=not chosen.all)]


class _Lines:
    """Makes rows of events, with their numbers and what is new in each."""

    def __init__(self, numbers: Mapping[str, int], news: Sequence[Mapping[str, Any]]) -> None:
        self._numbers = numbers
        self._news = news

    def row(self, fold: Fold, depth: int = 0) -> Row:
        event = fold.first
        number = self._numbers[event.record.event_id]
        cause = None if event.cause is None else self._numbers.get(event.cause.event_id)
        latency = None if event.cause is None else event.record.timestamp_ms - event.cause.timestamp_ms
        return Row(fold, number, cause, latency, self._news[number - 1], depth)


def _tree(saga: Saga, lines: _Lines, *, fold: bool) -> Iterator[Row]:
    pending = [(0, branch) for branch in reversed(branches(saga.roots, fold=fold))]
    seen = set[str]()
    while pending:
        depth, branch = pending.pop()
        yield lines.row(branch, depth)
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
    for at, event in enumerate(saga.events):
        effect = known.get(event.type)
        if effect is not None:
            answers = {contract_of(each).type for each in effect.emits}
            answer = next((each for each in saga.caused_by(event) if each.type in answers), None)
            took = None if answer is None else answer.after_ms - event.after_ms
            parking = waits.get(event.record.event_id)
            found.append(EffectLine(event, at + 1, effect.asks, effect.ask.retry.attempts, answer, took, parking))
    return found
