"""Whoever emitted an event, and wherever a state comes from: a decider is given the same values, and decides the same."""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.replay import replay
from eventlib.replay.partition_buffer import Shard
from eventlib.testing import given
from tests.integration.reopening import events

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 10, 26, 0, 30, tzinfo=BERLIN)
"""In UTC it is Sunday, 23:30."""


class Carrier(StrEnum):
    POST = "post"


class Asked(Event, topic="asked", key="key", request=True):
    key: str


class Planned(Event, topic="planned", key="key"):
    key: str
    at: datetime
    weight: Decimal
    carrier: str
    stops: list[str]


class Driven(Event, topic="driven", key="key"):
    key: str
    said: str


class Called(Event, topic="called", key="key"):
    key: str
    said: str


class Overdue(Event, topic="overdue", key="key"):
    key: str
    said: str


@dataclass(frozen=True)
class Plan:
    at: datetime | None = None


@dataclass(frozen=True)
class Tour:
    at: datetime | None = None
    weight: Decimal = Decimal(0)
    carrier: str = ""
    stops: list[str] | None = None


def shown(value: Planned | Tour) -> str:
    """Return all that a function can see of a value."""
    kinds = type(value.at).__name__, type(value.carrier).__name__, type(value.stops).__name__
    return f"{value.at!r} {value.at and value.at.strftime('%A %H')} {value.weight!r} {value.carrier!r} {value.stops!r} {kinds}"


def make_choreography() -> Choreography:
    plans = Decider("plan", state=Plan, key="key")
    tours = Decider("tour", state=Tour, key="key")

    @plans.on
    def plan(_: Plan, asked: Asked) -> list[Planned]:
        return [Planned(key=asked.key, at=MONDAY, weight=Decimal("1.1"), carrier=Carrier.POST, stops=["a"])]

    @plans.effect(Planned)
    async def call(planned: Planned) -> Called:
        return Called(key=planned.key, said=shown(planned))

    @plans.evolve
    def planned(state: Plan, event: Event) -> Plan:
        return Plan(MONDAY) if isinstance(event, Asked) else state

    @plans.on
    def called(_plan: Plan, _called: Called) -> None:
        return None

    @tours.evolve
    def evolve(tour: Tour, event: Event) -> Tour:
        if isinstance(event, Planned):
            return replace(tour, at=MONDAY, weight=Decimal(2), carrier=Carrier.POST, stops=[*event.stops, "b"])
        return tour

    @tours.on
    def drive(tour: Tour, planned: Planned) -> list[Driven]:
        return [Driven(key=planned.key, said=f"{shown(planned)}; {shown(tour)}")]

    @tours.deadline
    def late_at(tour: Tour) -> datetime | None:
        return None if tour.at is None else tour.at.replace(year=2020, day=24) + timedelta(days=1)

    @late_at.passed
    def late(tour: Tour) -> list[Overdue]:
        assert tour.at is not None
        return [Overdue(key="1", said=f"{late_at.due_at(tour)!r} {shown(tour)}")]

    return Choreography(
        "tours", [Service("planning", deciders=[plans], effects="all"), Service("driving", deciders=[tours])]
    )


async def run(log: EventLog, *services: str) -> None:
    async with Runtime(log, services=services) as runtime, asyncio.timeout(60):
        await log.publish(Asked(key="1"), idempotency_key="1")  # it is processed once
        await runtime.idle()


async def decided(url: str, *, together: bool) -> list[Event]:
    """Let the services handle a request in one process, or in one for each, and again; return what they emitted."""
    choreography = make_choreography()
    async with open_log(url, choreography) as one, open_log(url, choreography) as other:
        if together:
            await run(one, "planning", "driving")
        else:
            await run(one, "planning")
            await run(other, "driving")
        for log in (other, one):  # what is restored, and what its own process has read
            await run(log, "planning", "driving")
        return [event for topic in ("driven", "called", "overdue") for event in await events(one, topic)]


async def test_the_same_is_decided_in_one_process_and_in_several_before_and_after_a_restart(tmp_path: Path) -> None:
    in_one = await decided(f"sqlite:///{tmp_path}/one.db", together=True)
    in_two = await decided(f"sqlite:///{tmp_path}/two.db", together=False)
    assert in_one == in_two
    assert [type(each) for each in in_one] == [Driven, Called, Overdue]
    assert "Sunday 23" in str(in_one[0])
    assert "datetime(2020, 10, 25, 23, 30, tzinfo=datetime.timezone.utc)" in str(in_one[2])


async def test_a_test_without_a_log_is_given_the_same(tmp_path: Path) -> None:
    said = await decided(f"sqlite:///{tmp_path}/log.db", together=True)
    choreography = make_choreography()
    planned = given(choreography.decider("plan")).when(Asked(key="1")).emitted
    assert given(choreography.decider("tour")).when(*planned).emitted == said[:1]


async def test_a_replay_has_one_answer_however_it_is_started(tmp_path: Path) -> None:
    for together in (True, False):
        url = f"sqlite:///{tmp_path}/{together}.db"
        await decided(url, together=together)
        async with open_log(url, make_choreography()) as log:
            ways: list[dict[str, Any]] = [{}, {"services": ["planning"]}, {"services": ["driving"]}]
            ways += [{"part": Shard(index, 2)} for index in range(2)]
            reports = [await replay(log, **way) for way in ways]
            assert [(report.same, report.notes) for report in reports] == [(True, reports[0].notes)] * len(ways)
            assert reports[0].decisions == reports[1].decisions + reports[2].decisions
