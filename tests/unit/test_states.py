"""Changing a frozen state gives what `dataclasses.replace` gives, whatever the class has to it."""

import dataclasses
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

import pytest

from eventlib.model.states import replace


@dataclass(frozen=True)
class Shelf:
    on_hand: int = 0
    seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Deep(Shelf):
    rows: int = 1


@dataclass(frozen=True)
class Cached:
    units: int = 0

    @cached_property
    def twice(self) -> int:
        return 2 * self.units


@dataclass(frozen=True)
class Checked:
    units: int = 0

    def __post_init__(self) -> None:
        if self.units < 0:
            raise ValueError("fewer than none")


@dataclass(frozen=True, slots=True)
class Slotted:
    units: int = 0


@dataclass(frozen=True)
class Unmade:
    units: int = 0
    twice: int = field(default=0, init=False)


@dataclass(frozen=True)
class Weighed:
    units: int = 0
    weight: InitVar[int] = 1


@dataclass
class Open:
    units: int = 0


@dataclass(frozen=True, init=False)
class Own:
    units: int = 0

    def __init__(self, units: int = 0) -> None:
        object.__setattr__(self, "units", 2 * units)


def test_it_gives_an_equal_state_and_leaves_the_old_one() -> None:
    cases: list[tuple[Any, dict[str, int]]] = [
        (Shelf(1, ("a",)), {"on_hand": 2}),
        (Deep(1), {"rows": 5}),
        (Shelf(), {}),
        (Open(), {"units": 3}),
    ]
    for state, changes in cases:
        before = dataclasses.asdict(state)
        made = replace(state, **changes)
        assert (made, type(made)) == (dataclasses.replace(state, **changes), type(state))
        assert repr(made) == repr(dataclasses.replace(state, **changes))
        assert dataclasses.asdict(state) == before
    assert hash(replace(Shelf(), on_hand=1)) == hash(Shelf(1))


def test_it_stays_frozen_and_can_be_changed_again() -> None:
    made = replace(replace(Shelf(), on_hand=1), seen=("x",))
    assert made == Shelf(1, ("x",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.on_hand = 3  # type: ignore[misc]  # that is what is refused


def test_a_class_with_more_to_it_is_left_to_the_original() -> None:
    assert replace(Slotted(1), units=2) == Slotted(2)
    assert replace(Own(1), units=3) == Own(3)
    with pytest.raises(ValueError, match="fewer than none"):
        replace(Checked(1), units=-1)
    with pytest.raises((TypeError, ValueError), match="twice"):  # it is a TypeError from Python 3.13 on
        replace(Unmade(), twice=1)
    assert replace(Weighed(), units=1) == Weighed(1)


def test_nothing_cached_is_carried_over() -> None:
    state = Cached(2)
    assert state.twice == 4
    assert replace(state, units=3).twice == 6


def test_what_is_no_field_or_no_state_is_refused() -> None:
    with pytest.raises(TypeError, match="on_hadn"):
        replace(Shelf(), on_hadn=1)  # type: ignore[call-arg]  # that is what is refused
    with pytest.raises(TypeError, match="dataclass"):
        replace("text", on_hand=1)  # type: ignore[type-var]  # as above
