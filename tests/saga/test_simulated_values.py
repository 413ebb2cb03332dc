"""The simulator compares each event that is handed on, and each state that is kept, with what its bytes give in another process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from eventlib import Choreography, Decider, Event, Service
from eventlib.model import decider, event
from eventlib.simulation import Scenario
from eventlib.simulation.scenario import Choices
from eventlib.simulation.stage import Stage
from tests.saga.planted import broken_by

AT = datetime(2026, 10, 26, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))


def broken() -> set[str | None]:
    """Return which invariants some schedules of an application break that is declared now."""

    class Asked(Event, topic="asked", key="key", request=True):
        key: str

    class Planned(Event, topic="planned", key="key", final=True):
        key: str
        at: datetime

    @dataclass(frozen=True)
    class Plan:
        at: datetime | None = None
        stops: list[str] = field(default_factory=list)

    plans, tours = Decider("plan", state=Plan, key="key"), Decider("tour", state=Plan, key="key")

    @plans.on
    def plan(_: Plan, asked: Asked) -> list[Planned]:
        return [Planned(key=asked.key, at=AT)]

    @plans.evolve
    def weigh(plan: Plan, _: Event) -> Plan:
        return Plan(at=AT, stops=[*plan.stops, "a"])

    tours.follows(Planned)

    class Tours(Scenario):
        def requests(self, orders: int, choose: Choices) -> Sequence[Event]:  # noqa: ARG002  as it is declared
            return [Asked(key=str(number)) for number in range(orders)]

        def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  as it is declared
            return {}

    application = Choreography("tours", [Service("planning", deciders=[plans]), Service("driving", deciders=[tours])])
    stage = Stage(application)
    return {broken_by(stage, Tours, seed) for seed in range(5)}


def test_what_is_handed_on_and_kept_is_as_written() -> None:
    assert broken() == {None}


@pytest.mark.parametrize(
    ("place", "name", "planted"),
    [
        (event, "validating", lambda _cls, **_: None),
        (decider, "normal_evolve", lambda evolve, _cls, **_: evolve),
    ],
    ids=["events are handed on as they were made", "states are kept as evolve returned them"],
)
def test_a_fault_that_is_planted_back_is_found(
    place: object, name: str, planted: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, planted)
    assert broken() == {"values_are_as_written"}
