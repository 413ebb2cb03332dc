"""The scheduler: possible next moves, oldest first, and delayed ones."""

from collections import deque
from heapq import heappop, heappush
from typing import Any, NamedTuple


class ScheduledMove(NamedTuple):
    """A possible next move: its `kind`, for `whom`, about `what`."""

    kind: str
    whom: Any = None
    what: Any = None


class Scheduler:
    """Holds each move once, first in, first out.

    Time is counted in steps. A delayed move becomes ready at its step, or earlier when nothing else is left.
    """

    def __init__(self) -> None:
        self.step = 0
        self._ready = deque[ScheduledMove]()
        self._later: list[tuple[int, int, ScheduledMove]] = []
        self._held = set[ScheduledMove]()
        self._count = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, move: ScheduledMove, after: int = 0) -> bool:
        """Add a move that is ready after so many steps; False when it is there already."""
        if move in self._held:
            return False
        self._held.add(move)
        if after:
            self._count += 1
            heappush(self._later, (self.step + after, self._count, move))
        else:
            self._ready.append(move)
        return True

    def ready(self) -> int:
        """Return how many moves are ready for the next step; 0 when there is none at all."""
        self.step += 1
        while self._later and (self._later[0][0] <= self.step or not self._ready):
            self._ready.append(heappop(self._later)[2])
        return len(self._ready)

    def take(self, which: int = 0) -> ScheduledMove:
        """Remove and return a ready move, by its position in the queue."""
        move = self._ready[which]
        del self._ready[which]
        self._held.remove(move)
        return move

    def waiting(self, kind: str) -> list[ScheduledMove]:
        """Return the moves of a kind in their order."""
        later = [move for _, _, move in sorted(self._later)]
        return [move for move in (*self._ready, *later) if move.kind == kind]
