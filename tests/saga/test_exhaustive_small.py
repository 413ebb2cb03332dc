"""The exhaustive search on applications of a few lines: what is forgotten, and effects that make several calls."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlib import FOREVER, Choreography, Decider, Event, Meta, OutcomeUnknown, Service
from eventlib.invariants import ExternalState, ExternalStates, Fold, Invariant, invariant
from eventlib.simulation import Choices, Scenario, SmallCase
from eventlib.simulation.exhaustive import explore
from eventlib.simulation.exhaustive.external import ExternalWorlds
from eventlib.simulation.exhaustive.moment import Moment, Step
from eventlib.simulation.exhaustive.steps import Steps
from eventlib.simulation.stage import Stage


class Pressed(Event, topic="presses", key="door", request=True):
    door: str


class Passed(Event, topic="passes", key="door"):
    door: str


class Opened(Event, topic="opened", key="door"):
    door: str


class Shut(Event, topic="opened", key="door"):
    door: str


class Reset(Event, topic="resets", key="door"):
    door: str


@dataclass(frozen=True)
class Count:
    opened: int = 0


@dataclass(frozen=True)
class Bells:
    is_ringing: bool = False


opened, bells = Fold("opened", state=Count, key="door"), ExternalState("bell", state=Bells, key="door")


@opened.evolve
def count(known: Count, event: Event) -> Count:
    return replace(known, opened=known.opened + isinstance(event, Opened))


@invariant(opened, bells, at_rest=True)
def an_open_door_rings(known: Count, bell: Bells) -> bool:
    """The bell rings where a door was opened, and nowhere else."""
    return bell.is_ringing == bool(known.opened)


class Bell:
    """Rings, unless it was muted, which lasts."""

    def __init__(self) -> None:
        self.is_ringing = False
        self.is_muted = False

    async def ring(self) -> bool:
        self.is_ringing = not self.is_muted
        return self.is_ringing

    async def mute(self) -> bool:
        self.is_ringing, self.is_muted = False, True
        return False


class Doors(Scenario):
    """A door at which somebody presses the bell three times, or once."""

    presses = 3

    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        raise NotImplementedError

    def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  nothing to choose
        return {"bell": Bell()}

    def small_case(self) -> SmallCase:
        return SmallCase([], [Pressed(door="front")] * self.presses)

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:
        bell = ports["bell"]
        assert isinstance(bell, Bell)
        return {bells: {"front": Bells(bell.is_ringing)}}


class PressedOnce(Doors):
    presses = 1


def ringing(*, asks_twice: bool) -> Choreography:
    """Return an application whose effect rings a bell, and perhaps mutes it within the same effect when that is not answered."""
    doors = Decider("door", state=Count, key="door")

    @doors.on
    def press(_: Count, pressed: Pressed) -> list[Passed]:
        return [Passed(door=pressed.door)]

    @doors.effect(Passed, retry=FOREVER)
    async def ring(passed: Passed, bell: Bell) -> Opened | Shut:
        try:
            rings = await bell.ring()
        except OutcomeUnknown:
            if not asks_twice:
                raise
            rings = await bell.mute()
        return Opened(door=passed.door) if rings else Shut(door=passed.door)

    return Choreography("doors", [Service("doors", deciders=[doors])], facts=[Pressed], invariants=[an_open_door_rings])


def test_the_second_call_of_an_effect_may_arrive_when_the_first_was_tried_again() -> None:
    assert explore(Stage(ringing(asks_twice=False)), PressedOnce()).violation is None
    wrong = explore(Stage(ringing(asks_twice=True)), PressedOnce())
    assert wrong.violation is not None
    assert wrong.violation.invariant.name == "an_open_door_rings"
    assert "mute at bell is on its way" in wrong.story
    assert wrong.story[-1] == "mute at bell arrives late"


class PressedBefore(Doors):
    """The bell was pressed, and is pressed once more."""

    reliable: tuple[str, ...] = ()

    def small_case(self) -> SmallCase:
        return SmallCase([Pressed(door="front")], [Pressed(door="front")], self.reliable)


class PressedBeforeAndRings(PressedBefore):
    reliable = ("bell",)


def test_no_call_of_a_reliable_port_is_lost() -> None:
    app = ringing(asks_twice=True)
    assert explore(Stage(app), PressedBefore()).violation is not None
    never = explore(Stage(app), PressedBeforeAndRings())
    assert (never.violation, never.complete, never.reliable) == (None, True, ("bell",))
    assert never.moments < 20


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


Moves = tuple[int, int, int]
"""Which state a device is in after a call, by the state before it."""


class Device:
    """Something outside with three states and two calls."""

    def __init__(self, first: Moves, second: Moves) -> None:
        self.state = 0
        self._moves = first, second

    async def first(self) -> int:
        self.state = self._moves[0][self.state]
        return self.state

    async def second(self) -> int:
        self.state = self._moves[1][self.state]
        return self.state


class WithDevice(Doors):
    """A door whose device is called for each press; `ended` are the states in which it was at an end."""

    presses = 2

    def __init__(self, first: Moves, second: Moves) -> None:
        self._moves = first, second
        self.ended = list[int]()

    def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  nothing to choose
        return {"device": Device(*self._moves)}

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:
        device = ports["device"]
        assert isinstance(device, Device)
        self.ended.append(device.state)
        return {}


def calling(*, gives_up: bool, resets: bool = False) -> Choreography:
    """Return an application whose effect makes one call, and the other one if the first comes to nothing, or long after it."""
    doors = Decider("door", state=Count, key="door")

    @doors.on
    def press(_: Count, pressed: Pressed) -> list[Passed]:
        return [Passed(door=pressed.door)]

    @doors.effect(Passed, retry=FOREVER)
    async def call(passed: Passed, device: Device) -> Opened | Shut:
        try:
            found = await device.first()
        except OutcomeUnknown:
            if not gives_up:
                raise
            found = await device.second()
        return Opened(door=passed.door) if found else Shut(door=passed.door)

    if resets:

        @doors.on
        def reset(_: Count, opened: Opened) -> list[Reset]:
            return [Reset(door=opened.door)]

        @doors.effect(Reset, retry=FOREVER)
        async def call_second(asked: Reset, device: Device) -> Shut:
            await device.second()
            return Shut(door=asked.door)

    return Choreography("doors", [Service("doors", deciders=[doors])], facts=[Pressed])


MOVES = st.tuples(*[st.integers(0, 2)] * 3)


@pytest.mark.heavy
@settings(max_examples=40, deadline=None, derandomize=True)
@example((1, 1, 1), (0, 0, 0), False, True)
@given(MOVES, MOVES, st.booleans(), st.booleans())
def test_calls_that_change_nothing_any_more_are_left_out_without_missing_an_end(
    first: Moves, second: Moves, gives_up: bool, resets: bool
) -> None:
    stage, found = Stage(calling(gives_up=gives_up, resets=resets)), list[tuple[int, list[int]]]()
    for is_over in (ExternalWorlds.is_over, lambda *_: False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ExternalWorlds, "is_over", is_over)
            scenario = WithDevice(first, second)
            scenario.presses = 1 if resets else 2
            explored = explore(stage, scenario)
            assert explored.complete
            found.append((explored.moments, sorted(scenario.ended)))
    (few, ends_of_few), (many, ends_of_many) = found
    assert set(ends_of_few) == set(ends_of_many)
    assert few <= many


def test_a_call_that_only_seemed_to_change_nothing_is_found_out() -> None:
    """The first call changes nothing while the device is in state 1, and something once the second, long after, has reset it."""
    case, told = WithDevice((1, 1, 1), (0, 0, 0)), list[bool]()
    misjudged = ExternalWorlds.misjudged

    def noted(outside: ExternalWorlds) -> bool:
        told.append(misjudged(outside))
        return told[-1]

    case.presses = 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExternalWorlds, "misjudged", noted)
        explore(Stage(calling(gives_up=False, resets=True)), case)
    assert told == [True, False], "explored again, and judged rightly then"
    assert set(case.ended) == {0, 1}
