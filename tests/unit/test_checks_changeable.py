"""What `eventlib check` finds in the parts of events and states: those that can be changed in place."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis.checks import check


class Loose(BaseModel):
    sku: str


class Fast(BaseModel):
    model_config = ConfigDict(frozen=True)

    sku: str


@dataclass
class LooseStep:
    name: str = ""


def made(part: type, step: type) -> Choreography:
    """Return a choreography with a part in an event's list, and another one in a state's map."""
    events: Any = type(Event)
    asked = events(
        "Asked",
        (Event,),
        {"__module__": __name__, "__annotations__": {"key": str, "parts": list[part] | None}},  # type: ignore[valid-type]
        topic="asked",
        key="key",
        request=True,
        final=True,
    )
    state: Any = dataclass(frozen=True)(
        type("State", (), {"__module__": __name__, "__annotations__": {"steps": dict[str, step] | None}, "steps": None})  # type: ignore[valid-type]
    )
    decider: Decider[object] = Decider("thing", state=state, key="key")
    decider.follows(asked)
    return Choreography("things", [Service("thing", deciders=[decider])])


@pytest.mark.parametrize(("part", "step", "subjects"), [(Loose, LooseStep, ["Loose", "LooseStep"]), (Fast, Fast, [])])
def test_a_part_that_is_not_frozen_is_a_finding(part: type, step: type, subjects: list[str]) -> None:
    found = [each for each in check(made(part, step)) if each.rule == "part-not-frozen"]
    assert [each.subject for each in found] == subjects
    assert [each.remedy for each in found] == [
        "declare it with `model_config = ConfigDict(frozen=True)`",
        "declare it with `@dataclass(frozen=True)`",
    ][: len(subjects)]
