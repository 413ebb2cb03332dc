"""Places a diagram's nodes on a grid and orders parallel lines, so that they cross seldom."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eventlib.analysis.diagram.model import Arrow, Lane, Node, Picture


@dataclass(frozen=True)
class Grid:
    """Each node's column and row, and each lane's rows."""

    columns: Mapping[str, int]
    rows: Mapping[str, int]
    lanes: Mapping[Lane, range]

    @property
    def width(self) -> int:
        """The number of columns."""
        return max(self.columns.values(), default=-1) + 1

    @property
    def height(self) -> int:
        """The number of rows."""
        return max((rows.stop for rows in self.lanes.values()), default=0)

    def is_free(self, row: int, after: int, before: int) -> bool:
        """Tell whether nothing stands in a row between two columns."""
        return not any(self.rows[name] == row and after < self.columns[name] < before for name in self.rows)


def grid(picture: Picture) -> Grid:
    """Return a grid in which arrows lead to the right, but for those that close a ring."""
    columns = _columns(picture)
    rows: dict[str, int] = {}
    lanes: dict[Lane, range] = {}
    for lane in picture.lanes:
        first = max((each.stop for each in lanes.values()), default=0)
        stacked = [row for band in _bands(picture.on(lane)) for row in _stacked(band, columns)]
        for row, names in enumerate(stacked, first):
            rows.update(dict.fromkeys(names, row))
        lanes[lane] = range(first, first + len(stacked))
    return Grid(columns, rows, lanes)


def _bands(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    yield [node for node in nodes if node.role == "step"]
    yield [node for node in nodes if node.role != "step"]


def _stacked(nodes: Sequence[Node], columns: Mapping[str, int]) -> list[list[str]]:
    """Return rows of nodes, as few as there can be: no two of a row in the same column."""
    rows = list[list[str]]()
    for node in sorted(nodes, key=lambda each: columns[each.id]):
        for row in rows:
            if all(columns[other] != columns[node.id] for other in row):
                row.append(node.id)
                break
        else:
            rows.append([node.id])
    return rows


def _columns(picture: Picture) -> dict[str, int]:
    """Return columns in which each cause stands left of what it leads to, and each beginning next to what it begins."""
    arrows = _without_rings(picture)
    before, after = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for arrow in arrows:
        before[arrow.target].append(arrow.source)
        after[arrow.source].append(arrow.target)
    order = _in_order([node.id for node in picture.nodes], before)
    columns: dict[str, int] = {}
    for name in order:
        columns[name] = max((columns[each] + 1 for each in before[name]), default=0)
    for name in order:
        if not before[name]:  # what begins something stands next to it
            columns[name] = min((columns[each] - 1 for each in after[name]), default=0)
    return columns


def _in_order(names: Sequence[str], before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names so that each comes after all that stand before it."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in found:
            for each in before[name]:
                add(each)
            found[name] = None

    for name in names:
        add(name)
    return [*found]


def _without_rings(picture: Picture) -> list[Arrow]:
    """Return the arrows that do not lead back to where their saga came from."""
    onward = defaultdict[str, list[Arrow]](list)
    for arrow in picture.arrows:
        onward[arrow.source].append(arrow)
    kept, done, open_now = list[Arrow](), set[str](), set[str]()

    def go(name: str) -> None:
        open_now.add(name)
        for arrow in onward[name]:
            if arrow.target in open_now:
                continue
            kept.append(arrow)
            if arrow.target not in done:
                go(arrow.target)
        open_now.discard(name)
        done.add(name)

    for node in picture.nodes:
        if node.id not in done:
            go(node.id)
    return kept


_PASSES = 50


@dataclass
class Line:
    """A line along a channel, from `first` to `last`; others join it from the near side and leave on the far side."""

    first: float
    last: float
    near: list[float] = field(default_factory=list)
    far: list[float] = field(default_factory=list)

    def reach(self, at: float) -> None:
        """Make it long enough to come by a place."""
        self.first, self.last = min(self.first, at), max(self.last, at)

    def passes(self, at: float) -> bool:
        """Tell whether it runs by a place."""
        return self.first < at < self.last

    def overlaps(self, other: "Line") -> bool:
        """Tell whether the two cannot share a track."""
        return self.first <= other.last and other.first <= self.last


def tracks(lines: Mapping[Hashable, Line]) -> dict[Hashable, int]:
    """Return each line's track, from 0 on the near side; lines that do not overlap may share one."""
    order = _ordered(list(lines), lines)
    found: dict[Hashable, int] = {}
    for name in order:
        beneath = [found[other] for other in found if lines[other].overlaps(lines[name])]
        found[name] = max(beneath, default=-1) + 1
    return found


def _ordered(order: list[Hashable], lines: Mapping[Hashable, Line]) -> list[Hashable]:
    """Move one line at a time to where it crosses the others least, as long as that helps."""
    for _ in range(_PASSES):
        before = [*order]
        for name in before:
            order.remove(name)
            order.insert(_best(lines[name], [lines[other] for other in order]), name)
        if order == before:
            break
    return order


def _best(line: Line, others: Sequence[Line]) -> int:
    """Return the place among the others at which a line crosses them least."""
    crossed = sum(_crossings(line, other) for other in others)
    least, best = crossed, 0
    for at, other in enumerate(others, 1):
        crossed += _crossings(other, line) - _crossings(line, other)
        if crossed < least:
            least, best = crossed, at
    return best


def _crossings(near: Line, far: Line) -> int:
    return sum(map(near.passes, far.near)) + sum(map(far.passes, near.far))
