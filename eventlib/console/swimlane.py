"""A saga as a swimlane: who emitted what when, what caused what, and how long effects took; folded as its timeline is.

To scale, a wait beside which all else would be a dot is cut out of the axis, and its length is written there.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Literal, NamedTuple

from eventlib.console.rendering import lasting
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.saga import Saga, SagaEvent
from eventlib.model.saga_folds import Fold, rows

Scale = Literal["time", "steps"]
_WIDE, _WIDEST, _LEFT = 1_240.0, 24_000.0, 28.0
_STEP, _LEAST_STEP = 110.0, 14.0
_CUT, _CUTS, _DWARFS = 96.0, 8, 30
"""The width of a wait that is cut, how many are cut at most, and how many times as long as all shorter ones it is."""
_LANE, _ROW, _ROWS, _CHARACTER, _WIDE_FROM = 26.0, 13.0, 4, 6.7, "\u2e80"
_FROM_BELOW = ("step", "compensation", "end", "failure", "parked")
_CAUSES = 1_500
_TICKS = 8
_ROUND_MS = (
    *(digit * 10**power for power in range(4) for digit in (1, 2, 5)), 15_000, 30_000,
    *(minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720)),
    *(days * 86_400_000 for days in (1, 2, 7, 30)),
)  # fmt: skip


class Label(NamedTuple):
    """A text below what is at `x`, to the right of it, or with `is_end` to the left."""

    text: str
    role: str
    x: float
    row: int
    is_end: bool


@dataclass(slots=True)
class Lane:
    """A lane of the picture: its labels are in rows, and none is over another."""

    name: str
    labels: list[Label] = field(default_factory=list)
    top: float = 0.0
    _ends: list[float] = field(default_factory=list)

    @property
    def y(self) -> float:
        """Where its marks are."""
        return self.top + _LANE / 2

    @property
    def height(self) -> float:
        """The room for its marks and its labels."""
        return _LANE + _ROW * len(self._ends)

    def label(self, text: str, role: str, x: float, right: float) -> None:
        """Write what is at a place, after all that is to the left of it; a plain step where no row is free has no label."""
        width = 10 + sum(_CHARACTER if each < _WIDE_FROM else 2 * _CHARACTER for each in text)
        is_end = x + width > right and x > width
        begin = x - width if is_end else x
        row = next((at for at, end in enumerate(self._ends) if end <= begin), len(self._ends))
        if row < _ROWS or role != "step":
            self._ends[row : row + 1] = [begin + width]
            self.labels.append(Label(text, role, x, row, is_end))


class Mark(NamedTuple):
    """An event in the picture, or several of one type: where the first and the last are, and what it is for the saga."""

    fold: Fold
    x: float
    end: float
    lane: Lane
    role: str


class Span(NamedTuple):
    """An effect in the picture, from its request to its answer, or to now: `done`, `open` or `parked`."""

    request: SagaEvent
    kind: str
    text: str
    x: float
    width: float
    lane: Lane


class Axis:
    """Places times: to scale, but for the waits that are `cuts`, each from and to a place, with its length in ms."""

    def __init__(self, times: Collection[int]) -> None:
        first, last = min(times), max(times)
        self._times = sorted({*times, max(last, first + 1)})
        gaps = [after - before for before, after in pairwise(self._times)]
        cut_from = _cut_from(sorted(gaps))
        self._whole = sum(gap for gap in gaps if gap < cut_from)
        room = _WIDE - 2 * _LEFT - _CUT * sum(gap >= cut_from for gap in gaps)
        self._xs, self._runs = [_LEFT], [[first]]
        self.cuts = list[tuple[float, float, int]]()
        for after, gap in zip(self._times[1:], gaps, strict=True):
            left, is_cut = self._xs[-1], gap >= cut_from
            self._xs.append(left + (_CUT if is_cut else room * gap / self._whole))
            if is_cut:
                self.cuts.append((left, self._xs[-1], gap))
                self._runs.append([])
            self._runs[-1].append(after)

    def at(self, ms: int) -> float:
        """Return where a time is."""
        place = min(bisect_right(self._times, ms), len(self._times) - 1) - 1
        (begin, end), (left, right) = self._times[place : place + 2], self._xs[place : place + 2]
        return left + (right - left) * (ms - begin) / (end - begin)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield what to write where: the time since the first event, and behind a cut the time since that, with a +."""
        most = _ROUND_MS[-1]
        step = next((each for each in _ROUND_MS if self._whole <= _TICKS * each), -(-self._whole // most) * most)
        yield _LEFT, lasting(0)
        for at, run in enumerate(self._runs):
            for ms in range(run[0] + step, run[-1] + 1, step):
                yield self.at(ms), f"{'+' if at else ''}{lasting(ms - run[0])}"


def _cut_from(gaps: Sequence[int]) -> float:
    """Return from which length on waits are cut, of all of them in ascending order."""
    shorter = 0
    for at, gap in enumerate(gaps):
        if 0 < shorter < gap / _DWARFS and len(gaps) - at <= _CUTS:
            return gap
        shorter += gap
    return inf


@dataclass(frozen=True, slots=True)
class Swimlane:
    """What is drawn: lanes from the top, marks, spans, paths from causes to what they led to, and the ticks and cuts of the axis."""

    lanes: Sequence[Lane]
    marks: Sequence[Mark]
    spans: Sequence[Span]
    paths: Sequence[tuple[str, str]]
    ticks: Sequence[tuple[float, str]]
    cuts: Sequence[tuple[float, float, int]]
    width: float
    height: float


def swimlane(
    saga: Saga, choreography: Choreography, scale: Scale, until_ms: int, *, fold: bool, parked: Collection[str] = ()
) -> Swimlane:
    """Return the picture of a saga, looked at `until_ms` after its first event; `parked` are ids of its events."""
    folds = rows(saga, fold=fold)
    axis = Axis([*(event.after_ms for event in saga.events), *([] if saga.ended else [until_ms])])
    step = min(max(_LEAST_STEP, min(_STEP, _WIDE / len(folds))), _WIDEST / len(folds))
    numbered = [(at, event) for at, each in enumerate(folds) for event in each.events]
    xs = [axis.at(event.after_ms) if scale == "time" else _LEFT + at * step for at, event in numbered]
    right = max(_WIDE, max(xs) + _LEFT)
    ports = _ports(choreography)
    asked = [(event, f"⇄ {port}") for event in saga.events if (port := ports.get(event.type))]
    lanes = {name: Lane(name) for name in (*(event.service for event in saga.events), *(port for _, port in asked))}
    spans = [_span(saga, event, xs, (lanes[port], right - _LEFT), parked) for event, port in asked]
    marks = [
        Mark(each, xs[first.number - 1], xs[each.last.number - 1], lanes[first.service], _role(first, parked))
        for each in folds
        if (first := each.first)
    ]
    height = _placed(lanes.values(), marks, spans, right)
    ticks, cuts = ([*axis.ticks()], axis.cuts) if scale == "time" else ([], [])
    paths = _paths(marks)
    marks.sort(key=lambda each: _FROM_BELOW.index(each.role))
    return Swimlane([*lanes.values()], marks, spans, paths, ticks, cuts, right, height)


def _role(event: SagaEvent, parked: Collection[str]) -> str:
    if event.record.event_id in parked:
        return "parked"
    return "end" if event.ends and event.role == "step" else event.role


def _ports(choreography: Choreography) -> Mapping[str, str]:
    """Return the port, or else the function, that the effect of each type of request asks."""
    return {
        contract_of(request).type: effect.asks
        for decider in choreography.deciders
        for request, effect in decider.effects.items()
    }


def _span(
    saga: Saga, request: SagaEvent, xs: Sequence[float], place: tuple[Lane, float], parked: Collection[str]
) -> Span:
    lane, right = place
    begin = xs[request.number - 1]
    answer = next((each for each in saga.caused_by(request) if each.service == request.service), None)
    if answer is not None:
        width = max(4.0, xs[answer.number - 1] - begin)
        return Span(request, "done", lasting(answer.after_ms - request.after_ms), begin, width, lane)
    is_parked = request.record.event_id in parked
    kind, text = ("parked", "parked") if is_parked else ("open", "no answer yet")
    return Span(request, kind, text, begin, max(6.0, right - begin), lane)


def _placed(lanes: Collection[Lane], marks: Sequence[Mark], spans: Sequence[Span], right: float) -> float:
    """Write the labels, put the lanes below each other, and return their height."""
    together = dict[tuple[str, float, str, str], list[Mark]]()
    for mark in marks:
        together.setdefault((mark.lane.name, mark.x, mark.role, mark.fold.first.type), []).append(mark)
    for (_, x, role, _), same in together.items():
        same[0].lane.label(Fold([event for each in same for event in each.fold.events]).title, role, x, right)
    for span in spans:
        span.lane.label(span.text, "parked" if span.kind == "parked" else "step", span.x, right)
    height = 0.0
    for lane in lanes:
        lane.top, height = height, height + lane.height
    return height


def _paths(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    by_id = {event.record.event_id: mark for mark in marks for event in mark.fold.events}
    found = dict[tuple[int, int], tuple[str, str]]()
    for mark in marks:
        for event in mark.fold.events:
            cause = None if event.cause is None else by_id.get(event.cause.event_id)
            if cause is not None and cause is not mark and len(found) < _CAUSES:
                x, y, other_x, other_y = cause.x, cause.lane.y, mark.x, mark.lane.y
                middle = (x + other_x) / 2
                way = f"M{x:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {other_y:.1f} {other_x:.1f} {other_y:.1f}"
                found[cause.fold.first.number, mark.fold.first.number] = way, event.role
    return [*found.values()]
