"""A saga as a swimlane: who emitted what when, to scale or step by step, what caused what, and how long effects took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.saga import Saga, SagaEvent

Scale = Literal["steps", "time"]
LANE = 56.0
MARGIN = 20.0
_WIDE, _WIDEST = 1_240.0, 24_000.0
_BOX, _GAP, _DOT_GAP = 132.0, 14.0, 14.0
_BOXES = 60
_CAUSES = 1_500


@dataclass(frozen=True, slots=True)
class Mark:
    """An event in the picture: its number from 1, and where its box or dot is."""

    number: int
    label: str
    role: str
    ends: bool
    x: float
    y: float
    hint: str


@dataclass(frozen=True, slots=True)
class Span:
    """An effect in the picture, from its request to its answer, or to now (`is_open`)."""

    label: str
    x: float
    y: float
    width: float
    is_open: bool
    hint: str


@dataclass(frozen=True, slots=True)
class Swimlane:
    """What is drawn: lanes from the top, marks, spans, and paths from causes to what they led to."""

    scale: Scale
    lanes: Sequence[str]
    marks: Sequence[Mark]
    spans: Sequence[Span]
    paths: Sequence[tuple[str, str]]
    ticks: Sequence[tuple[float, int]]
    width: float
    height: float
    boxes: bool
    box: float = _BOX


def swimlane(saga: Saga, choreography: Choreography, scale: Scale, until_ms: int) -> Swimlane:
    """Return the picture of a saga, which was looked at `until_ms` after its first event."""
    events = saga.events
    effects = _Effects(choreography)
    ports = dict.fromkeys(port for event in events if (port := effects.port_of(event)))
    lanes = [*dict.fromkeys(event.service for event in events), *(f"⇄ {port}" for port in ports)]
    has_boxes = scale == "steps" and len(events) <= _BOXES
    xs = _steps(len(events), has_boxes=has_boxes) if scale == "steps" else _times(events, until_ms)
    ys = {lane: MARGIN + LANE * at + LANE / 2 for at, lane in enumerate(lanes)}
    number = {event.record.event_id: at for at, event in enumerate(events)}
    marks = [
        Mark(at + 1, event.type, event.role, event.ends, xs[at], ys[event.service], _hint(at, event))
        for at, event in enumerate(events)
    ]
    right = max(xs) + (_BOX / 2 if has_boxes else 12) + MARGIN
    spans = [
        _span(saga, event, number, xs, (ys[f"⇄ {port}"], right - MARGIN))
        for event in events
        if (port := effects.port_of(event))
    ]
    ticks = (
        [] if scale == "steps" else _ticks(max(until_ms if not saga.ended else saga.duration_ms, events[-1].after_ms))
    )
    height = 2 * MARGIN + LANE * len(lanes) + (18 if ticks else 0)
    paths = _paths(events, marks, number)
    return Swimlane(scale, lanes, marks, spans, paths, ticks, max(right, 320.0), height, has_boxes)


class _Effects:
    """The port, or else the function, that the effect of a request asks."""

    def __init__(self, choreography: Choreography) -> None:
        self._asks: Mapping[str, str] = {
            contract_of(request).type: effect.asks
            for decider in choreography.deciders
            for request, effect in decider.effects.items()
        }

    def port_of(self, event: SagaEvent) -> str | None:
        return self._asks.get(event.type)


def _steps(count: int, *, has_boxes: bool) -> list[float]:
    if has_boxes:
        return [MARGIN + _BOX / 2 + at * (_BOX + _GAP) for at in range(count)]
    gap = max(4.0, min(_DOT_GAP, _WIDEST / count))
    return [MARGIN + 8 + at * gap for at in range(count)]


def _times(events: Sequence[SagaEvent], until_ms: int) -> list[float]:
    last = max(events[-1].after_ms, 1)
    whole = max(last, min(until_ms, 4 * last)) if not any(event.ends for event in events) else last
    return [_at(event.after_ms, whole) for event in events]


def _at(after_ms: float, whole: float) -> float:
    return MARGIN + 8 + (_WIDE - 2 * MARGIN - 16) * after_ms / max(whole, 1)


def _ticks(whole: int) -> list[tuple[float, int]]:
    step = 1
    while whole / step > 8:  # noqa: PLR2004  as many as can be read
        step = step * 2 if str(step)[0] != "2" else step // 2 * 5
    return [(_at(ms, whole), ms) for ms in range(0, whole + 1, step)]


def _span(
    saga: Saga, request: SagaEvent, number: Mapping[str, int], xs: Sequence[float], place: tuple[float, float]
) -> Span:
    y, right = place
    begin = xs[number[request.record.event_id]]
    answers = [each for each in saga.caused_by(request) if each.service == request.service]
    if not answers:
        return Span(request.type, begin, y, max(6.0, right - begin), True, f"{request.type}: no answer yet")
    answer = answers[0]
    took = answer.after_ms - request.after_ms
    end = xs[number[answer.record.event_id]]
    return Span(request.type, begin, y, max(4.0, end - begin), False, f"{request.type} → {answer.type}: {took:,} ms")


def _paths(events: Sequence[SagaEvent], marks: Sequence[Mark], number: Mapping[str, int]) -> list[tuple[str, str]]:
    found = list[tuple[str, str]]()
    for at, event in enumerate(events[:_CAUSES]):
        cause = None if event.cause is None else number.get(event.cause.event_id)
        if cause is not None:
            one, other = marks[cause], marks[at]
            middle = (one.x + other.x) / 2
            way = f"M{one.x:.1f} {one.y:.1f}C{middle:.1f} {one.y:.1f} {middle:.1f} {other.y:.1f} {other.x:.1f} {other.y:.1f}"
            found.append((way, event.role))
    return found


def _hint(at: int, event: SagaEvent) -> str:
    cause = "" if event.cause is None else f", because of {event.cause.type}"
    return f"{at + 1}. {event.type}, {event.service}, +{event.after_ms:,} ms{cause}"
