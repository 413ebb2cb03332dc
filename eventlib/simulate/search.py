"""The search for a schedule that breaks a law. Hypothesis draws the schedules, and shrinks one that does.

Only this module imports Hypothesis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import perf_counter

from eventlib.errors import WiringError
from eventlib.laws import Breach
from eventlib.simulate.choices import Choice, Choices, Recorded, drawn_from
from eventlib.simulate.scenario import Scenario
from eventlib.simulate.schedule import BrokenLaw, Schedule
from eventlib.simulate.stage import Stage
from eventlib.simulate.story import Line

try:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st
except ImportError as error:
    raise WiringError(
        "the simulator needs Hypothesis: install the extra `simulate`, as in eventlib[simulate]"
    ) from error


@dataclass(frozen=True)
class Case:
    """What is simulated: an application on its stage, and its surroundings."""

    stage: Stage
    scenario: Callable[[], Scenario]

    def schedule(self, orders: int, choose: Choices, *, keep_story: bool = False) -> Schedule:
        """Return a schedule of so many orders, whose choices are made by `choose`."""
        return Schedule(self.stage, self.scenario(), orders, choose, keep_story=keep_story)


@dataclass(frozen=True)
class Failure:
    """A schedule that breaks a law, as short as it could be made."""

    breach: Breach
    orders: int
    choices: tuple[Choice, ...]
    story: tuple[Line, ...]


@dataclass(frozen=True)
class Searched:
    """What a search came to: how many schedules and steps were played in which time, and what was found."""

    schedules: int
    steps: int
    seconds: float
    failure: Failure | None


Progress = Callable[[int, bool], None]
"""Told of every schedule: how many were played, and whether a failure is being shrunk by now."""


def search(case: Case, schedules: int, orders: int, seed: int, progress: Progress) -> Searched:
    """Play schedules until a law breaks, or all of them were played; the same seed gives the same schedules.

    They have from one to so many orders by turns: what one order can break is found, and told, with one.
    """
    began = perf_counter()
    played = _Played(case, progress)
    at_once = min(_AT_ONCE, -(-schedules // orders))
    for number, first in enumerate(range(0, schedules, at_once)):
        played.orders = 1 + number % orders
        _search_some(played, min(at_once, schedules - first), seed * _FAR_APART + number)
        if played.broken is not None:
            break
    seconds = perf_counter() - began
    failure = None if played.broken is None else play_again(case, played.orders, Recorded(played.broken))
    return Searched(played.schedules, played.steps, seconds, failure)


def play_again(case: Case, orders: int, choices: Recorded) -> Failure | None:
    """Play a schedule whose choices were recorded; None when no law breaks."""
    schedule = case.schedule(orders, choices, keep_story=True)
    try:
        schedule.play()
    except BrokenLaw as broken:
        return Failure(broken.breach, orders, tuple(choices.made), tuple(broken.story))
    return None


class _Played:
    """Plays schedules, counts them, and keeps the choices of the last one that broke a law."""

    def __init__(self, case: Case, progress: Progress) -> None:
        self.orders = 1
        self.schedules = 0
        self.steps = 0
        self.broken: tuple[Choice, ...] | None = None
        self._case = case
        self._progress = progress

    def play(self, random: Random) -> None:
        """Play one schedule. Raises: BrokenLaw."""
        choose = drawn_from(random)
        schedule = self._case.schedule(self.orders, choose)
        if self.broken is None:
            self.schedules += 1
        try:
            schedule.play()
        except BrokenLaw as broken:
            self.broken = tuple(choose.made)
            raise _as_its_law(broken) from broken
        finally:
            self.steps += schedule.world.agenda.step
            self._progress(self.schedules, self.broken is not None)


def _search_some(played: _Played, schedules: int, seed: int) -> None:
    @seeded(seed)
    @settings(
        max_examples=schedules,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(st.randoms(use_true_random=False))
    def each(random: Random) -> None:
        played.play(random)

    try:
        each()
    except _LawIsBroken:
        return


class _LawIsBroken(Exception):
    """Some law is broken; each law has a class of its own, so that a failure keeps its law while it shrinks."""


def _as_its_law(broken: BrokenLaw) -> _LawIsBroken:
    name = broken.breach.law.name
    return _LAWS.setdefault(name, type(name, (_LawIsBroken,), {}))(str(broken))


_LAWS: dict[str, type[_LawIsBroken]] = {}
_AT_ONCE = 250
"""How many schedules one run of Hypothesis draws: what it remembers of them is bounded by that."""
_FAR_APART = 1_000_003
