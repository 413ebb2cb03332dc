"""The search for a schedule that breaks an invariant. Hypothesis draws the schedules, and shrinks a failing one.

Only this module imports Hypothesis.
"""

import multiprocessing
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from time import perf_counter
from typing import NamedTuple

from eventlib.errors import TerminalError, WiringError
from eventlib.ground.fork_pool import in_processes
from eventlib.invariants import Violation
from eventlib.simulation.scenario import Choice, Choices, Recorded, Scenario, drawn_from
from eventlib.simulation.schedule import InvariantViolated, Schedule
from eventlib.simulation.stage import Stage
from eventlib.simulation.story import Line

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


try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st
except ImportError as error:
    raise WiringError(
        "the simulator needs Hypothesis: install the extra `simulate`, as in eventlib-sagas[simulate]"
    ) from error


@dataclass(frozen=True)
class Case:
    """What is simulated: an application on its stage, and its scenario."""

    stage: Stage
    scenario: Callable[[], Scenario]

    def schedule(self, orders: int, choose: Choices, *, keep_story: bool = False) -> Schedule:
        """Return a schedule of so many orders, with choices by `choose`."""
        return Schedule(self.stage, self.scenario(), orders, choose, keep_story=keep_story)


@dataclass(frozen=True)
class Failure:
    """The shortest schedule found that breaks an invariant."""

    violation: Violation
    orders: int
    choices: tuple[Choice, ...]
    story: tuple[Line, ...]


class Extent(NamedTuple):
    """How much is searched: so many schedules, each of up to so many orders; the same seed gives the same ones.

    `workers` processes share them; their number does not change the result.
    """

    schedules: int
    orders: int
    seed: int
    workers: int = 1


@dataclass(frozen=True)
class Searched:
    """The result of a search: what ran up to the first failure, in what time, and that failure."""

    played: Played
    seconds: float
    failure: Failure | None


def search(case: Case, extent: Extent, progress: Progress) -> Searched:
    """Run schedules until an invariant breaks, or all have run.

    Their orders grow from one to the maximum: what one order can break is found, and shown, with one. Of several
    failures the first by number counts, whichever was found first. Call it while this process has no other thread.
    Raises: TerminalError when a failure cannot be reproduced, or a process has died.
    """
    began = perf_counter()
    runs = _runs(extent)
    shared = Shared(len(runs), progress)
    plays = partial(_play_shared, case, runs, shared)
    found = dict(chain.from_iterable(in_processes(plays, min(extent.workers, len(runs)))))
    first = min((number for number, played in found.items() if played.is_broken), default=None)
    played = Played()
    for number, of_run in found.items():
        if first is None or number <= first:
            played.add(of_run)
    failure = None
    if first is not None:
        choices = _shrunk(case, runs[first], lambda: progress(played.schedules, True))
        failure = play_again(case, runs[first].orders, Recorded(choices))
    return Searched(played, perf_counter() - began, failure)


def play_again(case: Case, orders: int, choices: Recorded) -> Failure | None:
    """Run a schedule with recorded choices; None when no invariant breaks."""
    schedule = case.schedule(orders, choices, keep_story=True)
    try:
        schedule.play()
    except InvariantViolated as broken:
        return Failure(broken.violation, orders, tuple(choices.made), tuple(broken.story))
    return None


class _Run(NamedTuple):
    """The schedules of one Hypothesis run."""

    schedules: int
    orders: int
    seed: int


def _runs(extent: Extent) -> list[_Run]:
    at_once = min(_AT_ONCE, -(-extent.schedules // extent.orders))
    return [
        _Run(min(at_once, extent.schedules - first), 1 + number % extent.orders, extent.seed * _FAR_APART + number)
        for number, first in enumerate(range(0, extent.schedules, at_once))
    ]


def _play_shared(case: Case, runs: Sequence[_Run], shared: Shared, index: int) -> list[tuple[int, Played]]:
    """Execute one process's share of the runs, and return their results by number."""
    found = list[tuple[int, Played]]()
    while (number := shared.take()) is not None:
        played = _play(case, runs[number], partial(shared.report, index))
        if played.is_broken:
            shared.end(number)
        found.append((number, played))
    return found


def _play(case: Case, run: _Run, report: Callable[[], None]) -> Played:
    """Execute a run up to its first failure."""
    played = Played()

    def each(random: Random) -> None:
        schedule = case.schedule(run.orders, drawn_from(random))
        broken = _broken_by(schedule)
        if not played.is_broken:
            played.count(schedule, run.orders)
            played.is_broken = broken is not None
            report()
        if broken is not None:
            raise _as_its_invariant(broken) from broken

    _draw(run, each, Phase.generate)
    return played


def _shrunk(case: Case, run: _Run, report: Callable[[], None]) -> tuple[Choice, ...]:
    """Repeat a run, shrink its first failure, and return the choices of the shortest schedule that breaks the invariant."""
    choices: tuple[Choice, ...] | None = None

    def each(random: Random) -> None:
        nonlocal choices
        choose = drawn_from(random)
        broken = _broken_by(case.schedule(run.orders, choose))
        report()
        if broken is not None:
            choices = tuple(choose.made)
            raise _as_its_invariant(broken) from broken

    _draw(run, each, Phase.generate, Phase.shrink)
    if choices is None:
        raise TerminalError(
            "a schedule broke an invariant, but not when it ran again: what the services do depends on chance"
        )
    return choices


def _broken_by(schedule: Schedule) -> InvariantViolated | None:
    try:
        schedule.play()
    except InvariantViolated as broken:
        return broken
    return None


def _draw(run: _Run, play: Callable[[Random], None], *phases: Phase) -> None:
    """Let Hypothesis draw a run's schedules, up to one that breaks an invariant."""

    @seeded(run.seed)
    @settings(
        max_examples=run.schedules,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.randoms(use_true_random=False))
    def each(random: Random) -> None:
        play(random)

    with suppress(_InvariantIsViolated):
        each()


class _InvariantIsViolated(Exception):
    """An invariant is broken; each invariant has its own class, so that shrinking keeps to one invariant."""


def _as_its_invariant(broken: InvariantViolated) -> _InvariantIsViolated:
    name = broken.violation.invariant.name
    return _LAWS.setdefault(name, type(name, (_InvariantIsViolated,), {}))(str(broken))


_LAWS: dict[str, type[_InvariantIsViolated]] = {}
_AT_ONCE = 250
"""How many schedules one run of Hypothesis draws, which bounds its memory."""
_FAR_APART = 1_000_003
