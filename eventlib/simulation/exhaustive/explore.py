"""Explores every state that a small case can reach, each one once.

A state (`Moment`) is the tasks' states, their waiting inputs, the external systems, and the invariants' folds. Tasks and
their transactions are real; a step begins with a task that was just restored from its changelog, so that crashes before
an input are covered.

Left out, without missing a state: records that no decider handles, since no step depends on them; several inputs in
one transaction, since a task handles them one after the other; attempts that do not arrive, since they change nothing,
and giving up after too many of them is explored; calls on their way that change nothing any more, whatever becomes of the
external systems; calls that arrive later than their answer was given up. A deadline
passes at every moment at which its task has read what was there before, however early that is. A state is forgotten
just before its task takes the next thing, if the task had read all that was there: until then it makes no difference
but to the times of what others do meanwhile, which are earlier here than they would be. External duplicates, zombies
and parked keys are covered by simulated schedules.
"""

import marshal
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from sys import intern

from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.invariants import Violation
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.publication import Publication
from eventlib.simulation.exhaustive.moment import Moment, Step
from eventlib.simulation.exhaustive.steps import Steps
from eventlib.simulation.invariant_monitor import REST, broken
from eventlib.simulation.scenario import Scenario
from eventlib.simulation.stage import BEGIN_MS, Stage

_WITHOUT_REFERENCES = 2
"""The version of Python's format in which equal values are written in the same way, wherever they come from."""


@dataclass(frozen=True)
class Bounds:
    """What is explored: whether deadlines pass, and how many moments there may be; None: however many there are."""

    deadlines: bool = True
    moments: int | None = None


@dataclass(frozen=True)
class Explored:
    """The number of moments, of steps to them, and of ends; the first violation, and the fewest steps that lead to it.

    `farthest` is how many steps the farthest moment is away; `complete` is False when there are more moments than the
    bounds allow, and then no violation was found among those that were visited. `reliable` are the ports no call of which
    was lost, as the small case says.
    """

    moments: int
    steps: int
    ends: int
    farthest: int = 0
    complete: bool = True
    violation: Violation | None = None
    story: tuple[str, ...] = ()
    reliable: tuple[str, ...] = ()


def explore(stage: Stage, scenario: Scenario, bounds: Bounds | None = None) -> Explored:
    """Visit every moment of a scenario's small case, the nearest first, until an invariant is broken.

    Raises: WiringError for a scenario without a small case. Memory grows with the moments: about 1 KB for each.
    """
    bounds = bounds or Bounds()
    case = scenario.small_case()
    if not case.requests:
        raise WiringError(f"{type(scenario).__name__} has no small case to explore: let small_case return its requests")
    steps = Steps(stage, scenario, stage.declared.invariants, forgets=bounds.deadlines, reliable=case.reliable)
    before = [steps.tasks.number(record) for record in _records(steps.log, case.before, "before")]
    steps.requests = [steps.tasks.number(record) for record in _records(steps.log, case.requests, "request")]
    return replace(Exploration(steps, bounds).run(_settled(steps, before)), reliable=tuple(sorted(case.reliable)))


def _settled(steps: Steps, before: Sequence[int]) -> Moment:
    """Return the moment after the initial events are handled, one step after the other."""
    moment = steps.first
    for number in before:
        moment = steps.after_emitting("", moment, (number,), ()).moment
        while step := next(steps.before(moment), None):
            moment = step.moment
    return moment


class Exploration:
    """Visits what can follow from a moment, breadth first: the first violation is one of the nearest."""

    def __init__(self, steps: Steps, bounds: Bounds) -> None:
        self._steps = steps
        self._bounds = bounds
        self._forget()

    def _forget(self) -> None:
        self._moments = list[Moment | None]()  # None: its steps are known, and nothing else of it is needed
        self._numbers = dict[bytes, int]()  # by a digest of the moment, which takes a tenth of its memory
        self._came_from = array("q")
        self._by = list[str]()
        self._edges = array("q")
        self._ends = list[int]()
        self._taken = 0

    def run(self, *firsts: Moment) -> Explored:
        """Visit all moments that can follow from the first ones, within the bounds."""
        found = self._run(firsts)
        while found.complete and found.violation is None and self._steps.outside.misjudged():
            self._forget()
            found = self._run(firsts)
        return found

    def _run(self, firsts: Sequence[Moment]) -> Explored:
        for first in firsts:
            self._visit(first, -1, "")
        at, farthest, last_of_level = 0, 0, len(self._moments) - 1
        while at < len(self._moments):
            if self._bounds.moments is not None and len(self._moments) > self._bounds.moments:
                return self._explored(farthest, complete=False)
            broken_by = self._expand(at)
            if broken_by is not None:
                return self._explored(farthest, broken_by=broken_by, at=at)
            at += 1
            if at > last_of_level and at < len(self._moments):
                farthest, last_of_level = farthest + 1, len(self._moments) - 1
        endless = self._endless()
        if endless is not None:
            what = "from here on no order of events, answers and deadlines leads to an end"
            return self._explored(farthest, broken_by=Step("", firsts[0], [broken(REST, "all", what)]), at=endless)
        return self._explored(farthest)

    def _visit(self, moment: Moment, came_from: int, by: str) -> int:
        moment = self._steps.without_what_is_over(moment)
        digest = blake2b(marshal.dumps(tuple(moment), _WITHOUT_REFERENCES), digest_size=16).digest()
        number = self._numbers.setdefault(digest, len(self._moments))
        if number == len(self._moments):
            self._moments.append(moment)
            self._came_from.append(came_from)
            self._by.append(intern(by))
        return number

    def _expand(self, at: int) -> Step | None:
        """Take every step from a moment; return one that breaks an invariant."""
        moment, self._moments[at] = self._moments[at], None
        assert moment is not None  # noqa: S101  each is expanded once
        is_end = True
        for step in self._steps.after(moment, deadlines=self._bounds.deadlines):
            is_end = False
            self._taken += 1
            if step.violations:
                return step
            self._edges.append(at)
            self._edges.append(self._visit(step.moment, at, step.what))
        if is_end:
            self._ends.append(at)
            violations = self._steps.at_rest(moment)
            return Step("", moment, violations) if violations else None
        return None

    def _endless(self) -> int | None:
        """Return the nearest moment from which no end can be reached."""
        before: list[list[int]] = [[] for _ in self._moments]
        for index in range(0, len(self._edges), 2):
            before[self._edges[index + 1]].append(self._edges[index])
        ends = bytearray(len(self._moments))
        left = [*self._ends]
        while left:
            at = left.pop()
            if not ends[at]:
                ends[at] = 1
                left += before[at]
        found = ends.find(0)
        return None if found < 0 else found

    def _explored(
        self, farthest: int, *, complete: bool = True, broken_by: Step | None = None, at: int = 0
    ) -> Explored:
        moments, ends = len(self._moments), len(self._ends)
        if broken_by is None:
            return Explored(moments, self._taken, ends, farthest, complete)
        story = [broken_by.what] if broken_by.what else []
        while self._came_from[at] >= 0:
            story.append(self._by[at])
            at = self._came_from[at]
        violation = broken_by.violations[0]
        return Explored(moments, self._taken, ends, farthest, complete, violation, tuple(reversed(story)))


def _records(log: EventLog, events: Sequence[Event], key: str) -> list[Record]:
    return [log.records_of(Publication(e, f"{key} {n}"), BEGIN_MS)[0] for n, e in enumerate(events)]
