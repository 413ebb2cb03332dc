"""Turns a grid and its routes into pixels, and defines how the drawn diagram looks."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from eventlib.analysis.diagram.grid import Grid, grid
from eventlib.analysis.diagram.model import Arrow, Lane, Picture
from eventlib.analysis.diagram.routes import LEAVING, Route, Routes, routes

NODE_WIDTH = 118.0
_NODE_HEIGHT = 38.0
_COUNTED_HEIGHT = 48.0  # with a count below the name
_TRAFFIC = 74.0  # what stands on an arrow, before its target
_PORT = 13.0  # between two arrows that come into a node
_TRACK = 8.0  # between two lines side by side
_ROUND = 18.0  # above and below the outermost of them, together
_SIDE = 16.0  # between a column and the first line beside it
_AISLE = 14.0  # above a row within a lane
_LANE_PADDING = 16.0
_BETWEEN_LANES = 10.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    left: float
    top: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Halfway down."""
        return self.top + self.height / 2

    @property
    def bottom(self) -> float:
        """Where it ends."""
        return self.top + self.height


@dataclass(frozen=True)
class Layout:
    """Where everything is; `width` and `height` are the whole picture's."""

    nodes: Mapping[str, Box]
    lanes: Mapping[Lane, Box]
    arrows: Mapping[Arrow, list[Point]]
    width: float
    height: float


def layout(picture: Picture, left: float) -> Layout:
    """Return a picture's layout, with `left` free for the names of lanes."""
    placed = grid(picture)
    ways = routes(picture, placed)
    is_counted = picture.traffic is not None
    across = _Across(placed, ways, left, _TRAFFIC if is_counted else 0)
    heights = _heights(placed, ways, _COUNTED_HEIGHT if is_counted else _NODE_HEIGHT)
    down = _Down(placed, ways, heights)
    nodes = {}
    for name, row in placed.rows.items():
        left, top = across.columns[placed.columns[name]], down.rows[row] - heights[name] / 2
        nodes[name] = Box(left, top, NODE_WIDTH, heights[name])
    lanes = {
        lane: Box(0, down.tops[rows.start], across.width, down.bottoms[rows.stop - 1] - down.tops[rows.start])
        for lane, rows in placed.lanes.items()
    }
    arrows = {route.arrow: _points(route, ways, nodes, across, down) for route in ways.routes}
    return Layout(nodes, lanes, arrows, across.width, down.height)


class _Across:
    """Where columns begin, and where the lines between them are."""

    def __init__(self, grid: Grid, ways: Routes, left: float, traffic: float) -> None:
        self.columns: list[float] = []
        self._lines: list[float] = []
        entered = {route.enters for route in ways.routes}
        at = left
        for column in range(grid.width + 1):
            lines = _count(ways.channels.get(column, {}))
            self._lines.append(at + _SIDE)
            at += 2 * _SIDE + max(lines - 1, 0) * _TRACK if lines else _SIDE
            at += traffic if column in entered else 0
            self.columns.append(at)
            at += NODE_WIDTH
        self.width = at - NODE_WIDTH
        self._tracks = ways.channels

    def line(self, channel: int, way: Hashable) -> float:
        """Return where a line goes up or down."""
        return self._lines[channel] + self._tracks[channel][way] * _TRACK


class _Down:
    """Where the middles of rows are, where lanes begin and end, and where the lines between rows are."""

    def __init__(self, grid: Grid, ways: Routes, heights: Mapping[str, float]) -> None:
        self.rows: list[float] = []
        self.tops: dict[int, float] = {}
        self.bottoms: dict[int, float] = {}
        self._lines: dict[int, float] = {}
        self._tracks = ways.aisles
        begins = {rows.start for rows in grid.lanes.values()}
        ends = {rows.stop - 1 for rows in grid.lanes.values()}
        highest = [max(heights[name] for name in grid.rows if grid.rows[name] == row) for row in range(grid.height)]
        at = 0.0
        for row in range(grid.height):
            lines = _count(ways.aisles.get(row, {})) * _TRACK
            self._lines[row] = at + (_BETWEEN_LANES if row in begins else _AISLE) / 2 + _TRACK / 2
            at += lines + (_BETWEEN_LANES if row in begins else _AISLE)
            if row in begins:
                self.tops[row] = at
                at += _LANE_PADDING
            self.rows.append(at + highest[row] / 2)
            at += highest[row]
            if row in ends:
                at += _LANE_PADDING
                self.bottoms[row] = at
        self._lines[grid.height] = at + _BETWEEN_LANES
        self.height = at + _BETWEEN_LANES + _count(ways.aisles.get(grid.height, {})) * _TRACK

    def line(self, aisle: int, way: Hashable) -> float:
        """Return where a line goes along."""
        return self._lines[aisle] + self._tracks[aisle][way] * _TRACK


def _points(route: Route, ways: Routes, nodes: Mapping[str, Box], across: _Across, down: _Down) -> list[Point]:
    source, target = nodes[route.arrow.source], nodes[route.arrow.target]
    start = source.left + source.width, source.middle + _PORT * LEAVING
    end = target.left, target.middle + _PORT * ways.ports[route.arrow]
    if route.is_straight:
        return [start, end]
    first = across.line(route.leaves, route.way)
    if route.aisle is None:
        return _bent([start, (first, start[1]), (first, end[1]), end])
    along, last = down.line(route.aisle, route.way), across.line(route.enters, route.way)
    return _bent([start, (first, start[1]), (first, along), (last, along), (last, end[1]), end])


def _bent(points: list[Point]) -> list[Point]:
    """Return points without those that repeat the one before."""
    return [points[0], *(point for before, point in pairwise(points) if before != point)]


def _heights(grid: Grid, ways: Routes, least: float) -> dict[str, float]:
    """Return each node's height: there is room for what comes in."""
    outermost = dict.fromkeys(grid.rows, 0.0)
    for arrow, port in ways.ports.items():
        outermost[arrow.target] = max(outermost[arrow.target], abs(port))
    return {name: max(least, 2 * _PORT * port + _ROUND) for name, port in outermost.items()}


def _count(lines: Mapping[Hashable, int]) -> int:
    return max(lines.values(), default=-1) + 1


MARGIN = 28.0

TINTS = ("#eef4ff", "#effaf1", "#faf3ff", "#fff8e8", "#eefafa", "#fdf0f3")
"""One behind each service, in turn."""

CSS = """
text{font-family:Inter,'Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif;fill:#1e293b}
.paper{fill:#fff}
.title{font-size:24px;font-weight:700}
.subtitle{font-size:12.5px;fill:#64748b}
.service{font-size:14px;font-weight:700}
.decider{font-size:11px;fill:#64748b}
.lane{stroke:#dbe2ea}
.between{stroke:#cfdbd0;fill:none}
.world{fill:#fafafa;stroke:#b6bfca;stroke-dasharray:2 4}
.label{font-weight:600;text-anchor:middle}
.count{fill:#64748b;text-anchor:middle}
.box{fill:#fff;stroke:#334155;stroke-width:1.3}
.end{fill:none;stroke:#334155;stroke-width:1.3}
.failure .box{fill:#fdecec;stroke:#c62828}
.failure .label{fill:#a51d1d}
.failure .end{stroke:#c62828}
.compensation .box{fill:#fff5e9;stroke:#c2600c}
.compensation .label{fill:#974806}
.compensation .end{stroke:#c2600c}
.request .box{fill:#1e3a5f;stroke:#1e3a5f}
.request .label{fill:#fff}
.request .count{fill:#cbd5e1}
.effect .box{stroke-width:1;fill:#e8ecf1}
.effect.compensation .box{fill:#fbe9d6}
.source .box,.listener .box{fill:none;stroke:#94a3b8}
.deadline .box{stroke-dasharray:3 3}
.arrow{fill:none;stroke-width:1.5}
.arrow.step{stroke:#475569}
.arrow.failure{stroke:#c62828}
.arrow.compensation{stroke:#c2600c;stroke-dasharray:5 3}
.arrow.never{opacity:.28}
.arrow:hover{stroke-width:3}
.head.step{fill:#475569}
.head.failure{fill:#c62828}
.head.compensation{fill:#c2600c}
.traffic{font-size:9px;text-anchor:end;paint-order:stroke;stroke:#fff;stroke-width:2.5px;stroke-linejoin:round}
.key{font-size:11px;fill:#475569}
""".strip()
