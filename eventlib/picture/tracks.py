"""Orders parallel lines in the space between rows or columns, so that they cross each other seldom."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

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
