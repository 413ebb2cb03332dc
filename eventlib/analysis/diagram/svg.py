"""Draws a diagram as SVG without an external program: lanes across, time from left to right, and a legend."""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import cycle, groupby, pairwise

from eventlib.analysis.diagram.layout import CSS, MARGIN, NODE_WIDTH, TINTS, Box, Layout, Point, layout
from eventlib.analysis.diagram.model import OUTSIDE, Arrow, Lane, Node, Picture, number

_ARROWS = (("step", "a step forward"), ("failure", "a failure"), ("compensation", "what undoes"))
_BOXES = (
    ("request step", 12, "comes from outside"),
    ("event step", 6, "emitted by a service"),
    ("event failure", 6, "something failed"),
    ("event compensation", 6, "undoes, or asks for it"),
    ("effect step", 3, "asks the outside world"),
    ("deadline step", 12, "a deadline"),
)
_LETTER = 6.3
_GAP = 26.0


def legend(percentile: str | None) -> Iterator[str]:
    """Yield one line of examples, each with its meaning; `percentile` stands on the arrows (None: no traffic does)."""
    at = 0.0
    for role, meaning in _ARROWS:
        yield f'<path class="arrow {role}" d="M{at:.0f} 0h34" marker-end="url(#{role})"/>'
        yield _meaning(at + 42, meaning)
        at += 42 + _LETTER * len(meaning) + _GAP
    for style, radius, meaning in _BOXES:
        yield f'<g class="node {style}"><rect class="box" x="{at:.0f}" y="-9" width="30" height="18" rx="{radius}"/></g>'
        yield _meaning(at + 38, meaning)
        at += 38 + _LETTER * len(meaning) + _GAP
    yield (
        f'<g class="node event step"><rect class="end" x="{at - 3:.0f}" y="-11" width="36" height="22" rx="8"/>'
        f'<rect class="box" x="{at:.0f}" y="-8" width="30" height="16" rx="5"/></g>'
    )
    yield _meaning(at + 41, "ends a saga")
    at += 41 + _LETTER * len("ends a saga") + _GAP
    if percentile:
        yield _meaning(at, f"8,125 · 40 ms: how often, and the {percentile} from cause to event; pale: never")


def _meaning(at: float, text: str) -> str:
    return f'<text class="key" x="{at:.0f}" y="4">{text}</text>'


_NAMES = 128.0  # the lanes' names, on the left
_TITLE = 74.0
_LEGEND = 64.0
_BEND = 6.0
_GLYPH = 0.64  # a wide letter's width, in font sizes


def svg(
    picture: Picture, scope: str = "", *, styled: bool = True, link: Callable[[Arrow], str | None] | None = None
) -> str:
    """Return a picture as an SVG document; a node's notes show where the mouse rests on it.

    Its styles apply within elements that a selector `scope` names, for a page that has other pictures; there it has its
    own size, whatever the page's. Without `styled` it has none, for a page that forbids styles within it and has them itself.
    `link` gives the address that an arrow leads to; None for nowhere.
    """
    placed = layout(picture, _NAMES)
    width = placed.width + 2 * MARGIN
    height = placed.height + _TITLE + _LEGEND + 2 * MARGIN
    size = f' style="width:{width:.0f}px"' if scope else "" if styled else f' width="{width:.0f}" height="{height:.0f}"'
    role = "group" if link else "img"  # who sees an image sees no links in it
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"{size} role="{role}">',
        f"<title>{_text(picture.title)}</title>",
        f"<style>{stylesheet(scope)}</style>" if styled else "",
        f"<defs>{''.join(map(_marker, ('step', 'failure', 'compensation')))}</defs>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">',
        *_heading(picture),
        f'<g transform="translate(0 {_TITLE:.0f})">',
        *_lanes(placed),
        *_arrows(picture, placed, link or (lambda _arrow: None)),
        *(part for node in picture.nodes for part in _node(picture, node, placed.nodes[node.id])),
        "</g>",
        f'<g transform="translate({_NAMES:.0f} {_TITLE + placed.height + 30:.0f})">',
        *legend(None if picture.traffic is None else picture.percentile),
        "</g>",
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def stylesheet(scope: str = "") -> str:
    """Return the styles of pictures, within elements that a selector names."""
    return "\n".join(f"{scope} {rule}" for rule in CSS.splitlines()) if scope else CSS


def _heading(picture: Picture) -> Iterator[str]:
    yield f'<text class="title" x="0" y="24">{_text(picture.title)}</text>'
    yield f'<text class="subtitle" x="0" y="46">{_text(picture.subtitle)}</text>'


def _lanes(placed: Layout) -> Iterator[str]:
    """Yield a band for each service, with its deciders in it, and one for each place of the outside world."""
    tints = cycle(TINTS)
    for service, group in groupby(placed.lanes, key=lambda lane: lane.service or lane):
        lanes = [*group]
        boxes = [placed.lanes[lane] for lane in lanes]
        band = Box(0, boxes[0].top, boxes[0].width, boxes[-1].bottom - boxes[0].top)
        if isinstance(service, Lane):
            yield f'<rect class="world" {_at(band)} rx="10"/>'
            yield from _names(band, service.name, "" if service.name == OUTSIDE else "outside world")
            continue
        yield f'<rect class="lane" {_at(band)} rx="10" fill="{next(tints)}"/>'
        if len(lanes) == 1:
            yield from _names(band, service, "" if lanes[0].name == service else lanes[0].name)
        else:
            yield from _deciders(service, lanes, boxes)


def _names(band: Box, first: str, second: str) -> Iterator[str]:
    middle = band.middle - (4 if second else -5)
    yield f'<text class="service" x="16" y="{middle:.1f}">{_text(first)}</text>'
    if second:
        yield f'<text class="decider" x="16" y="{middle + 16:.1f}">{_text(second)}</text>'


def _deciders(service: str, lanes: Sequence[Lane], boxes: Sequence[Box]) -> Iterator[str]:
    yield f'<text class="service" x="16" y="{boxes[0].top + 24:.1f}">{_text(service)}</text>'
    for lane, box in zip(lanes, boxes, strict=True):
        below = max(box.middle + 4, boxes[0].top + 42)
        yield f'<text class="decider" x="16" y="{below:.1f}">{_text(lane.name)}</text>'
    for before, after in pairwise(boxes):
        yield f'<path class="between" d="M16 {(before.bottom + after.top) / 2:.1f}H{before.width - 16:.1f}"/>'


def _arrows(picture: Picture, placed: Layout, link: Callable[[Arrow], str | None]) -> Iterator[str]:
    order = {"compensation": 0, "failure": 1, "step": 2}  # what overlaps shows the way forward on top
    for arrow in sorted(picture.arrows, key=lambda each: order[each.role]):
        gone = "" if picture.is_gone(arrow) else " never"
        points = placed.arrows[arrow]
        drawn = (
            f'<path class="arrow {arrow.role}{gone}" d="{_path(points)}" marker-end="url(#{arrow.role})">'
            f"<title>{_text(arrow.source)} → {_text(arrow.target)}\n{_text(arrow.where)}</title></path>"
        )
        yield _linked(drawn, arrow, link(arrow))
    yield from _traffic(picture, placed, link)


def _traffic(picture: Picture, placed: Layout, link: Callable[[Arrow], str | None]) -> Iterator[str]:
    """Yield what stands on each arrow that was gone, before its target."""
    for arrow in filter(picture.is_gone, picture.arrows if picture.traffic is not None else ()):
        x, y = placed.arrows[arrow][-1]
        drawn = f'<text class="traffic" x="{x - 11:.1f}" y="{y - 3:.1f}">{_text(picture.label(arrow))}</text>'
        yield _linked(drawn, arrow, link(arrow), f": {picture.label(arrow)}")


def _linked(drawn: str, arrow: Arrow, address: str | None, says: str = "") -> str:
    """Return a part of an arrow as a link; the keyboard finds it in the page's own text, once for each arrow."""
    if address is None:
        return drawn
    name = _text(f"{arrow.source} to {arrow.target}{says}")
    return f'<a href="{_text(address)}" tabindex="-1" aria-label="{name}">{drawn}</a>'


def _path(points: Sequence[Point]) -> str:
    """Return a path through points, its corners rounded."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        bend = min(_BEND, _length(before, corner) / 2, _length(corner, after) / 2)
        start, end = _towards(corner, before, bend), _towards(corner, after, bend)
        parts.append(f"L{start[0]:.1f} {start[1]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {end[0]:.1f} {end[1]:.1f}")
    tip = _towards(points[-1], points[-2], 1.5)
    return "".join([*parts, f"L{tip[0]:.1f} {tip[1]:.1f}"])


def _length(one: Point, other: Point) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(point: Point, other: Point, by: float) -> Point:
    length = _length(point, other) or 1.0
    return point[0] + (other[0] - point[0]) * by / length, point[1] + (other[1] - point[1]) * by / length


def _node(picture: Picture, node: Node, box: Box) -> Iterator[str]:
    title = "\n".join([node.label, *node.notes])
    yield f'<g class="node {node.kind} {node.role}"><title>{_text(title)}</title>'
    radius = {"request": box.height / 2, "effect": 4.0, "deadline": box.height / 2}.get(node.kind, 9.0)
    if node.ends:
        yield f'<rect class="end" {_at(_grown(box, 3.5))} rx="{radius + 3.5:.1f}"/>'
    yield f'<rect class="box" {_at(box)} rx="{radius:.1f}"/>'
    yield from _label(node, box, picture.counts.get(node.id))
    yield "</g>"


def _label(node: Node, box: Box, count: int | None) -> Iterator[str]:
    lines = _wrapped(node.label)
    size = min(11.5, (NODE_WIDTH - 12) / (_GLYPH * max(map(len, lines))))
    shown = [(line, "label", size) for line in lines]
    shown += [] if count is None else [(number(count), "count", 9.0)]
    top = box.middle - 6.5 * len(shown) + 10
    for at, (line, style, points) in enumerate(shown):
        middle = box.left + box.width / 2
        yield (
            f'<text class="{style}" x="{middle:.1f}" y="{top + 13 * at:.1f}" font-size="{points:.1f}">'
            f"{_text(line)}</text>"
        )


def _wrapped(label: str) -> list[str]:
    """Return a name in one line, or in two of about the same length, broken between its words."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z_]+_?|_", label) or [label]
    if len(label) <= 12 or len(words) == 1:  # noqa: PLR2004  what fits well on one line
        return [label]
    breaks = ["".join(words[:at]) for at in range(1, len(words))]
    first = min(breaks, key=lambda part: max(len(part), len(label) - len(part)))
    return [first, label[len(first) :]]


def _marker(role: str) -> str:
    return (
        f'<marker id="{role}" class="head {role}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0.6L8 4L0 7.4z"/></marker>'
    )


def _grown(box: Box, by: float) -> Box:
    return Box(box.left - by, box.top - by, box.width + 2 * by, box.height + 2 * by)


def _at(box: Box) -> str:
    return f'x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'


def _text(text: str) -> str:
    return escape(text)
