"""The shared state of processes that search together: runs left, and runs done."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from eventlib.simulation.schedule import Schedule

Progress = Callable[[int, bool], None]
"""Called now and then with how many schedules ran, and whether a failure is being shrunk."""


@dataclass
class Played:
    """How many schedules ran, and how often each fault occurred; `is_broken` when the last schedule broke an invariant."""

    schedules: int = 0
    orders: int = 0
    steps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    is_broken: bool = False

    def count(self, schedule: Schedule, orders: int) -> None:
        """Count a schedule of so many orders that has run."""
        self.schedules += 1
        self.orders += orders
        self.steps += schedule.world.agenda.step
        self.faults += schedule.world.faults

    def add(self, other: "Played") -> None:
        """Add the counts of another process."""
        self.schedules += other.schedules
        self.orders += other.orders
        self.steps += other.steps
        self.faults += other.faults
        self.is_broken |= other.is_broken


class Shared:
    """The memory that forked processes share: the next run, the last run that is needed, progress.

    Progress is reported in the process with index 0.
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
        """Let no run after this one start: it breaks an invariant."""
        with self._end.get_lock():
            self._end.value = min(self._end.value, number)

    def report(self, index: int) -> None:
        """Report that the process with this index has run another schedule."""
        with self._played.get_lock():
            self._played.value += 1
        if index == 0:
            self._progress(self._played.value, False)
