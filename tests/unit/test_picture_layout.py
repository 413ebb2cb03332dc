"""The drawing's geometry: arrows lead from their cause to what follows, and over nothing that stands there."""

import random
from itertools import combinations, pairwise

import pytest

from eventlib.analysis.diagram.building import picture
from eventlib.analysis.diagram.grid import grid
from eventlib.analysis.diagram.layout import Box, Layout, layout
from eventlib.analysis.diagram.model import Arrow, Lane, Node, Picture, Role, Traffic
from eventlib.analysis.diagram.routes import routes
from eventlib.analysis.diagram.svg import svg
from services import shop

ROLES: tuple[Role, ...] = ("step", "failure", "compensation")
SEEDS = 150


def some_picture(seed: int) -> Picture:
    """Return a picture of up to 25 nodes in a few lanes; some arrows close rings."""
    dice = random.Random(seed)
    lanes = tuple(Lane(None if n == 0 else f"s{n // 2}", f"lane{n}") for n in range(dice.randint(1, 6)))
    names = [f"Event{n}" for n in range(dice.randint(2, 25))]
    nodes = tuple(Node(name, name, "event", dice.choice(ROLES), dice.choice(lanes)) for name in names)
    lanes = tuple(lane for lane in lanes if any(node.lane == lane for node in nodes))
    found: dict[tuple[str, str], Arrow] = {}
    for _ in range(dice.randint(1, 2 * len(names))):
        source, target = dice.sample(range(len(names)), 2)
        if source > target and dice.random() < 0.8:
            source, target = target, source
        pair = names[source], names[target]
        found[pair] = Arrow(*pair, nodes[target].role, "")
    traffic = {pair: Traffic(9, 9) for pair in found} if dice.random() < 0.5 else None
    return Picture("some", "", lanes, nodes, tuple(found.values()), traffic)


def pictures() -> list[Picture]:
    return [picture(shop), *map(some_picture, range(SEEDS))]


@pytest.fixture(scope="module", params=["all"])
def drawn() -> list[tuple[Picture, Layout]]:
    return [(each, layout(each, 100)) for each in pictures()]


def test_nodes_stand_in_their_lane_and_on_no_other(drawn: list[tuple[Picture, Layout]]) -> None:
    for shown, placed in drawn:
        for node in shown.nodes:
            box, lane = placed.nodes[node.id], placed.lanes[node.lane]
            assert lane.top < box.top
            assert box.bottom < lane.bottom
            assert 0 < box.left < box.left + box.width < placed.width + 1
        for one, other in combinations(placed.nodes.values(), 2):
            assert not overlap(one, other)
        for above, below in pairwise(placed.lanes.values()):
            assert above.bottom < below.top


def test_arrows_lead_from_their_cause_to_what_follows(drawn: list[tuple[Picture, Layout]]) -> None:
    for shown, placed in drawn:
        for arrow in shown.arrows:
            points = placed.arrows[arrow]
            source, target = placed.nodes[arrow.source], placed.nodes[arrow.target]
            assert points[0][0] == source.left + source.width
            assert source.top < points[0][1] < source.bottom
            assert points[-1][0] == target.left
            assert target.top < points[-1][1] < target.bottom
            assert all(one[0] == other[0] or one[1] == other[1] for one, other in pairwise(points))


def test_arrows_lead_over_no_node(drawn: list[tuple[Picture, Layout]]) -> None:
    for shown, placed in drawn:
        for arrow in shown.arrows:
            for one, other in pairwise(placed.arrows[arrow]):
                line = Box(min(one[0], other[0]), min(one[1], other[1]), abs(one[0] - other[0]), abs(one[1] - other[1]))
                for name, box in placed.nodes.items():
                    inside = Box(box.left + 1, box.top + 1, box.width - 2, box.height - 2)
                    assert not overlap(line, inside), (shown.title, arrow, name)


def test_lines_lie_on_each_other_only_when_they_share_their_way(drawn: list[tuple[Picture, Layout]]) -> None:
    for shown, placed in drawn:
        lines = [
            (arrow, one, other)
            for arrow in shown.arrows
            for one, other in pairwise(placed.arrows[arrow])
            if one != other
        ]
        for (first, a, b), (second, c, d) in combinations(lines, 2):
            if first.source == second.source or first.target == second.target:
                continue
            for axis in (0, 1):
                if a[axis] == b[axis] == c[axis] == d[axis]:
                    along = 1 - axis
                    assert max(a[along], b[along]) <= min(c[along], d[along]) or (
                        max(c[along], d[along]) <= min(a[along], b[along])
                    )


def test_time_goes_from_left_to_right() -> None:
    columns = grid(picture(shop)).columns
    assert all(columns[arrow.source] < columns[arrow.target] for arrow in picture(shop).arrows)
    assert columns["LineReserved"] == columns["LineRefused"]  # what may be said instead stands beside it


def test_steps_forward_stand_above_what_undoes() -> None:
    shown = picture(shop)
    rows = grid(shown).rows
    for lane in shown.lanes:
        steps = [rows[node.id] for node in shown.on(lane) if node.role == "step"]
        others = [rows[node.id] for node in shown.on(lane) if node.role != "step"]
        assert not others or not steps or max(steps) < min(others)


def test_a_ring_is_drawn_too() -> None:
    lane = Lane("s", "d")
    nodes = tuple(Node(name, name, "event", "step", lane) for name in ("A", "B", "C"))
    arrows = tuple(Arrow(*pair, "step", "") for pair in (("A", "B"), ("B", "C"), ("C", "A"), ("B", "B")))
    ring = Picture("ring", "", (lane,), nodes, arrows)
    assert [grid(ring).columns[name] for name in ("A", "B", "C")] == [0, 1, 2]
    assert len(routes(ring, grid(ring)).routes) == 4
    assert svg(ring).count('class="arrow step"') == 5  # and the legend's


def overlap(one: Box, other: Box) -> bool:
    across = one.left < other.left + other.width and other.left < one.left + one.width
    return across and one.top < other.bottom and other.top < one.bottom
