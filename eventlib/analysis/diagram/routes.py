"""Leads a picture's arrows from node to node: between the rows and the columns of its grid, never over a node.

An arrow leaves its cause to the right, goes up or down between two columns, along between two rows when it is a long
one, and comes in from the left. Arrows of one style from one cause share their way as long as they can.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from eventlib.analysis.diagram.grid import Grid, Line, tracks
from eventlib.analysis.diagram.model import Arrow, Picture

LEAVING = 0.25
"""How many ports below a node's middle its arrows leave: never level with one that comes in elsewhere in the row."""

_PORT = _TRACK = 1e-3  # of a row: enough to keep them apart

Way = tuple[str, str]
"""Arrows that share their way: one cause, and one style."""


@dataclass(frozen=True)
class Route:
    """One arrow's way: its channel after the cause, along which row (None: none), its channel before the target.

    Channel c is the space before column c, aisle r the one above row r. A straight arrow has none of them.
    """

    arrow: Arrow
    way: Way
    leaves: int
    aisle: int | None
    enters: int
    is_straight: bool


@dataclass(frozen=True)
class Routes:
    """All arrows' ways, and which track each takes in each channel and aisle.

    `ports` is how many ports below the middle of its target an arrow comes in.
    """

    routes: Sequence[Route]
    ports: Mapping[Arrow, float]
    channels: Mapping[int, Mapping[Hashable, int]]
    aisles: Mapping[int, Mapping[Hashable, int]]


def routes(picture: Picture, grid: Grid) -> Routes:
    """Return a way for each arrow."""
    found = _chosen(picture, grid)
    ports = _ports(found, grid)
    aisles = _aisles(found, grid)
    laid = {aisle: tracks(lines) for aisle, lines in aisles.items()}
    channels = _channels(found, grid, ports, laid)
    return Routes(found, ports, {at: tracks(lines) for at, lines in channels.items()}, laid)


def _chosen(picture: Picture, grid: Grid) -> list[Route]:
    wanted = defaultdict[tuple[Way, int], list[Arrow]](list)
    for arrow in picture.arrows:
        wanted[(arrow.source, arrow.role), grid.columns[arrow.target]].append(arrow)
    found = list[Route]()
    for (way, enters), arrows in wanted.items():
        row, leaves = grid.rows[way[0]], grid.columns[way[0]] + 1
        rows = [grid.rows[arrow.target] for arrow in arrows]
        for arrow, target in zip(arrows, rows, strict=True):
            is_straight = target == row and enters >= leaves and grid.is_free(row, leaves - 1, enters)
            aisle = None if enters == leaves else _aisle(row, [each for each in rows if each != row] or rows)
            found.append(Route(arrow, way, leaves, aisle, enters, is_straight))
    return found


def _aisle(row: int, targets: Sequence[int]) -> int:
    """Return the aisle that is next to the nearest target, on the side where the arrow comes from."""
    if min(targets) > row:
        return min(targets)
    if max(targets) < row:
        return max(targets) + 1
    return row + 1 if sum(targets) > row * len(targets) else row


def _ports(found: Sequence[Route], grid: Grid) -> dict[Arrow, float]:
    """Return each arrow's port: a node's stand in the order of where its arrows come from."""
    coming = defaultdict[str, list[tuple[float, int, Route]]](list)
    for route in found:
        row = grid.rows[route.arrow.source]
        height = row if route.is_straight or route.aisle is None else route.aisle - 0.5
        coming[route.arrow.target].append((height, -route.leaves, route))
    ports: dict[Arrow, float] = {}
    for each in coming.values():
        ordered = [route for *_, route in sorted(each, key=lambda entry: entry[:2])]
        straight = [at for at, route in enumerate(ordered) if route.is_straight]
        middle = straight[0] - LEAVING if straight else (len(ordered) - 1) / 2
        ports.update({route.arrow: at - middle for at, route in enumerate(ordered)})
    return ports


def _aisles(found: Sequence[Route], grid: Grid) -> dict[int, dict[Hashable, Line]]:
    aisles = defaultdict[int, dict[Hashable, Line]](dict)
    for route in found:
        if route.aisle is None or route.is_straight:
            continue
        line = aisles[route.aisle].setdefault(route.way, Line(route.leaves, route.leaves))
        line.reach(route.enters)
        for row, at in (grid.rows[route.arrow.source], route.leaves), (grid.rows[route.arrow.target], route.enters):
            (line.near if row < route.aisle else line.far).append(at)
    return aisles


def _channels(
    found: Sequence[Route],
    grid: Grid,
    ports: Mapping[Arrow, float],
    aisles: Mapping[int, Mapping[Hashable, int]],
) -> dict[int, dict[Hashable, Line]]:
    channels = defaultdict[int, dict[Hashable, Line]](dict)
    for route in (route for route in found if not route.is_straight):
        start = grid.rows[route.arrow.source] + 0.5 + _PORT * LEAVING
        end = grid.rows[route.arrow.target] + 0.5 + _PORT * ports[route.arrow]
        if route.aisle is None:
            _join(channels[route.leaves], route.way, start, near=True)
            _join(channels[route.leaves], route.way, end, near=False)
            continue
        lanes = aisles[route.aisle]
        along = route.aisle + _TRACK * (lanes[route.way] - max(lanes.values()) / 2)
        is_back = route.enters < route.leaves
        _join(channels[route.leaves], route.way, start, near=True)
        _join(channels[route.leaves], route.way, along, near=is_back)
        _join(channels[route.enters], route.way, along, near=not is_back)
        _join(channels[route.enters], route.way, end, near=False)
    return channels


def _join(lines: dict[Hashable, Line], way: Way, at: float, *, near: bool) -> None:
    line = lines.setdefault(way, Line(at, at))
    line.reach(at)
    (line.near if near else line.far).append(at)
