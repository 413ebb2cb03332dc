"""The exhaustive search on applications of a few lines: effects that make several calls, and ports that are reliable."""

from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlib import FOREVER, Choreography, Decider, Event, OutcomeUnknown, Service
from eventlib.invariants import ExternalStates, invariant
from eventlib.simulation import Choices, SmallCase
from eventlib.simulation.exhaustive import explore
from eventlib.simulation.exhaustive.external import ExternalWorlds
from eventlib.simulation.stage import Stage
from tests.saga.doors import Bell, Bells, Count, Doors, Opened, Passed, Pressed, Shut, bells, opened


class Reset(Event, topic="resets", key="door"):
    door: str


@invariant(opened, bells, at_rest=True)
def an_open_door_rings(known: Count, bell: Bells) -> bool:
    """The bell rings where a door was opened, and nowhere else."""
    return bell.is_ringing == bool(known.opened)


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
