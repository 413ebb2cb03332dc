"""A search that processes share: what is left to play, and what was played."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from eventlib.simulation.schedule import Schedule

Progress = Callable[[int, bool], None]
"""ExternalStates now and then how many schedules were played, and whether a failure is being shrunk by now."""


@dataclass
class Played:
    """How much was played, and how often what went wrong by the way; `is_broken` when the last schedule broke an invariant."""

    schedules: int = 0
    orders: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    is_broken: bool = False

    def count(self, schedule: Schedule, orders: int) -> None:
        """Count a schedule of so many orders that has been played."""
        self.schedules += 1
        self.orders += orders
        self.steps += schedule.world.agenda.step
        self.faults += schedule.world.faults

    def add(self, other: "Played") -> None:
        """Count what was played elsewhere, too."""
        self.schedules += other.schedules
        self.orders += other.orders
        self.steps += other.steps
        self.faults += other.faults
        self.is_broken |= other.is_broken


class Shared:
    """What forked processes know together: which run is the next, after which there is no need for another, progress.

    Progress is told in the process that has index 0.
    """

    def __init__(self, runs: int, progress: Progress) -> None:
        self._next = multiprocessing.Value("q", 0)
        self._end = multiprocessing.Value("q", runs)
        self._played = multiprocessing.Value("q", 0)
        self._progress = progress

    def take(self) -> int | None:
        """Take the next run: its number, or None when there is none left before the end."""
        with self._next.get_lock():
            number = self._next.value
            self._next.value += 1
        return number if number < self._end.value else None

    def end(self, number: int) -> None:
        """Let no run be taken after this one: it breaks an invariant."""
        with self._end.get_lock():
            self._end.value = min(self._end.value, number)

    def tell(self, index: int) -> None:
        """Tell that the process with this index has played another schedule."""
        with self._played.get_lock():
            self._played.value += 1
        if index == 0:
            self._progress(self._played.value, False)
