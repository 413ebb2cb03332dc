"""A replay of a log on which decisions went by values as they were made says why today's differ."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from eventlib import Choreography, Decider, Event, Runtime, Service, open_log
from eventlib.model import event
from eventlib.replay import Report, replay

MONDAY = datetime(2026, 10, 26, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))


def made() -> tuple[Choreography, Any]:
    class Asked(Event, topic="asked", key="key", request=True):
        key: str
        count: int = 0

    class Planned(Event, topic="planned", key="key"):
        key: str
        at: datetime
        note: str = ""

    class Driven(Event, topic="driven", key="key", final=True):
        key: str
        hour: int

    class Passed(Event, topic="passed", key="key", final=True):
        key: str

    @dataclass(frozen=True)
    class Tour:
        at: datetime | None = None

    plans, tours = Decider("plan", state=Tour, key="key"), Decider("tour", state=Tour, key="key")

    @plans.on
    def plan(_: Tour, asked: Asked) -> list[Planned]:
        return [Planned(key=asked.key, at=MONDAY)]

    @tours.evolve
    def evolve(tour: Tour, planned: Event) -> Tour:
        return replace(tour, at=planned.at) if isinstance(planned, Planned) else tour

    @tours.on
    def drive(_: Tour, planned: Planned) -> list[Driven]:
        return [Driven(key=planned.key, hour=planned.at.hour)]

    app = Choreography("tours", [Service("tours", deciders=[plans, tours])])
    return app, Asked


async def recorded(url: str) -> None:
    app, asked = made()
    async with open_log(url, app) as log, Runtime(log) as running:
        await log.publish(asked(key="1"))
        await running.idle()


async def replayed(url: str) -> Report:
    async with open_log(url, made()[0]) as log:
        return await replay(log)


async def test_a_difference_of_an_old_value_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    with monkeypatch.context() as then:
        then.setattr(event, "validating", lambda _cls, **_: None)  # events were handed on as they were made
        await recorded(url)
    (difference,) = (await replayed(url)).first
    assert ([each.facts["hour"] for each in difference.then], [each.facts["hour"] for each in difference.now]) == (
        [0],
        [23],
    )
    assert "a value of another zone, scale or class than its bytes have, in Planned.at" in difference.why
    assert "Planned.note" not in difference.why


async def test_nothing_differs_on_a_log_of_today(tmp_path: Path) -> None:
    await recorded(f"sqlite:///{tmp_path}/log.db")
    assert (await replayed(f"sqlite:///{tmp_path}/log.db")).same
