"""The page that compares two sagas: their events side by side, aligned by type, and their states where they differ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from eventlib.console.moments import DeciderMoment, moment_of
from eventlib.console.reading import SagaReader
from eventlib.console.rendering import Pages, json
from eventlib.errors import EventlibError
from eventlib.http.gate import Caller
from eventlib.identity.principal import READERS, Principal, allow
from eventlib.model.saga import Saga, SagaEvent
from eventlib.model.saga_folds import Fold, rows
from eventlib.search.saga_search import SagaQuery, SagaSearch

_FOLDED_FROM = 80
MOST_LINES = 500
"""How many lines of a saga are aligned: the work grows with their square."""
_OTHERS = 20
Key = Annotated[str, Query(max_length=500)]
Differing = tuple[str, Any, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of both sagas, or of one only; with the fields that differ between two of one type."""

    one: Fold | None
    other: Fold | None
    fields: Sequence[Differing] = ()

    @property
    def is_aligned(self) -> bool:
        """Whether both have an event of one type there."""
        return self.one is not None and self.other is not None and self.one.first.type == self.other.first.type


@dataclass(frozen=True, slots=True)
class StatePair:
    """A decider's last states of both sagas: the fields that differ, and how many are equal."""

    decider: str
    service: str
    fields: Sequence[Differing]
    equal: int


def compare_routes(pages: Pages, reader: SagaReader, search: SagaSearch) -> APIRouter:
    """Return the route of comparisons."""
    routes = APIRouter()

    @routes.get("/compare")
    @allow(*READERS)
    async def compare(request: Request, caller: Caller, one: Key = "", other: Key = "") -> Response:
        content: dict[str, Any] = {"one": one.strip(), "other": other.strip(), "pairs": [], "most": MOST_LINES}
        found = [
            await reader.saga(key, personal=caller.sees_personal) for key in (content["one"], content["other"]) if key
        ]
        keys = [key for key in (content["one"], content["other"]) if key]
        content["missing"] = [key for key, saga in zip(keys, found, strict=True) if saga is None]
        sagas = [saga for saga in found if saga is not None]
        content["sagas"] = sagas
        if len(sagas) == 2:  # noqa: PLR2004  both
            content["pairs"] = [*aligned(*sagas)]
            content["states"], content["doubts"] = await _states(reader, sagas, caller)
        else:
            latest = await search.full_page(SagaQuery("", "started_at desc", _OTHERS + 1))
            content["others"] = [each for each in latest.sagas if each["saga"] not in keys][:_OTHERS]
        status = 404 if content["missing"] else 200
        return pages.render(request, "compare.html", status, **content)

    return routes


def aligned(one: Saga, other: Saga) -> Iterator[Pair]:
    """Yield the first lines of two sagas side by side, aligned by the types of their events; long sagas are folded."""
    fold = max(len(one.events), len(other.events)) > _FOLDED_FROM
    left, right = (rows(saga, fold=fold)[:MOST_LINES] for saga in (one, other))
    types = [[each.first.type for each in side] for side in (left, right)]
    for kind, i, j, k, m in SequenceMatcher(None, types[0], types[1], autojunk=False).get_opcodes():
        for a, b in zip_longest(left[i:j], right[k:m]):
            yield Pair(a, b, _fields(one, a.first, other, b.first) if kind == "equal" and a and b else ())


def _fields(one: Saga, left: SagaEvent, other: Saga, right: SagaEvent) -> Sequence[Differing]:
    """Return the fields that differ, but for the sagas' own keys."""
    found = list[Differing]()
    for name in {**left.facts, **right.facts}:
        values = left.facts.get(name), right.facts.get(name)
        if values[0] != values[1] and values != (one.key, other.key):
            found.append((name, *values))
    return found


async def _states(reader: SagaReader, sagas: Sequence[Saga], caller: Principal) -> tuple[list[StatePair], list[str]]:
    sides, doubts = list[dict[str, DeciderMoment]](), list[str]()
    for saga in sagas:
        try:
            last = moment_of(saga, await reader.histories(saga), len(saga.events), personal=caller.sees_personal)
            sides.append({each.history.decider.name: each for each in last})
            doubts += [
                f"{saga.key}, {name}: {doubt}" for name, each in sides[-1].items() if (doubt := each.history.doubt)
            ]
        except EventlibError as error:
            sides.append({})
            doubts.append(f"{saga.key}: {error}")
    return [_pair(name, sides, sagas) for name in {**sides[0], **sides[1]}], doubts


def _pair(decider: str, sides: Sequence[dict[str, DeciderMoment]], sagas: Sequence[Saga]) -> StatePair:
    there = [side.get(decider) for side in sides]
    values = [{} if each is None else {field.name: field.value for field in each.fields} for each in there]
    names = {**values[0], **values[1]}
    differing = [
        (name, values[0].get(name), values[1].get(name))
        for name in names
        if json(_without(values[0].get(name), sagas[0].key)) != json(_without(values[1].get(name), sagas[1].key))
    ]
    return StatePair(
        decider, next(each.history.service.name for each in there if each), differing, len(names) - len(differing)
    )


def _without(value: Any, key: str) -> Any:
    """Return a value as it is compared: a saga's own key is no difference."""
    return "(its key)" if value == key else value
