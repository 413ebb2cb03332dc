"""The exhaustive search forgets states only just before they are missed, and finds what that leads to."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlib import Choreography, Decider, Event, Meta, Service
from eventlib.invariants import Invariant
from eventlib.simulation.exhaustive import explore
from eventlib.simulation.exhaustive.moment import Moment, Step
from eventlib.simulation.exhaustive.steps import Steps
from eventlib.simulation.stage import Stage
from tests.saga.doors import Count, Doors, Opened, Passed, Pressed, opened


@dataclass(frozen=True)
class Stage3:
    """How far a key has come, of 0 to 2; the last is forgotten after an hour."""

    stage: int = 0
    at: datetime | None = None


Table = tuple[tuple[int, bool], ...]
"""For each stage: the next one, and whether something is emitted by an input that leads to it."""


def tabled(name: str, takes: type[Event], emits: type[Event], table: Table) -> Decider[Stage3]:
    """Return a decider that does what a table says."""
    decider = Decider(name, state=Stage3, key="door")

    @decider.evolve
    def follow(known: Stage3, event: Event, meta: Meta) -> Stage3:
        return Stage3(table[known.stage][0], meta.recorded_at) if isinstance(event, takes) else known

    def decide(known: Stage3, event: Event) -> list[Event]:
        return [emits.model_validate(dict(event))] if table[known.stage][1] else []

    decide.__annotations__ = {"known": Stage3, "event": takes, "return": list[emits]}  # type: ignore[valid-type]  # as it is declared
    decider.on(decide)

    @decider.forget
    def forgotten_at(known: Stage3) -> datetime | None:
        return known.at + timedelta(hours=1) if known.at is not None and known.stage == 2 else None

    return decider


def at_most(opens: int) -> Invariant:
    def holds(known: Count) -> bool:
        return known.opened <= opens

    return Invariant(f"opens_at_most_{opens}", "A door does not open more often.", (opened,), False, holds)


class Eager(Steps):
    """Lets a state be forgotten at every moment at which it may be."""

    def after(self, moment: Moment, *, deadlines: bool) -> Iterator[Step]:
        yield from super().after(moment, deadlines=deadlines)
        for task in moment.idle:
            known = dict(moment.knows).get(task, 0)
            due = self.tasks.forgets(task, known)
            if due is not None:
                later = moment._replace(at_ms=max(moment.at_ms, due.at_ms))
                yield self.made("forgotten", later, task, self.tasks.pass_deadlines(task, known, later.at_ms))


def tables(*stages: st.SearchStrategy[int]) -> st.SearchStrategy[Table]:
    return st.tuples(*(st.tuples(stage, st.booleans()) for stage in stages))


ENDING = tables(st.integers(1, 2), st.just(2), st.just(2))
ANY = tables(*[st.integers(0, 2)] * 3)


def ends(services: Sequence[Service]) -> tuple[set[int], int]:
    """Return how often a door has opened at each end, and the number of moments."""
    found = set[int]()

    def holds(known: Count) -> bool:
        found.add(known.opened)
        return True

    counting = Invariant("ends_are_counted", "Nothing is wrong.", (opened,), True, holds)
    explored = explore(Stage(Choreography("doors", services, facts=[Pressed], invariants=[counting])), Doors())
    assert explored.violation is None
    return found, explored.moments


@pytest.mark.heavy
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.one_of(st.just(((0, True),) * 3), ANY), ENDING)
def test_what_is_forgotten_late_ends_as_what_is_forgotten_at_any_moment(first: Table, second: Table) -> None:
    """A state is forgotten only just before it is missed: that has the same ends, and no more moments."""
    services = [
        Service("gates", deciders=[tabled("gate", Pressed, Passed, first)]),
        Service("doors", deciders=[tabled("door", Passed, Opened, second)]),
    ]
    late, few = ends(services)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[explore.__module__], "Steps", Eager)
        eager, many = ends(services)
    assert late == eager
    assert few <= many


def test_a_state_that_is_forgotten_is_missed() -> None:
    """A door that opens once, and is then shut, opens again when that is forgotten."""
    once: Table = ((1, False), (2, True), (2, False))
    gates = Service("doors", deciders=[tabled("door", Pressed, Opened, once)])
    stage = Stage(Choreography("doors", [gates], facts=[Pressed], invariants=[at_most(1)]))
    found = explore(stage, Doors())
    assert found.violation is not None
    assert found.story[-1].startswith("door front is forgotten; doors/")
