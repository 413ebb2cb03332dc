"""A replay with other code, or of old values: what it says of deadlines, parked keys, sagas and differences."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Never
from zoneinfo import ZoneInfo

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Meta, Publication, Runtime, Service, open_log
from eventlib.model import event
from eventlib.model.deadline import Deadline
from eventlib.model.handler import Handler
from eventlib.replay import Report, replay, replaying
from tests.apps.small_shop import Expired, Ordered, Outside, make_shop
from tests.handling import handle_all
from tests.integration.reopening import everything

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def deadline_of(log: EventLog) -> Deadline[Any]:
    ((deadline,),) = (each.deadlines.values() for each in log.choreography.services[0].deciders)
    return deadline


async def handled(log: EventLog, *orders: Ordered) -> None:
    """Let the services handle orders one after the other, each at a later time."""
    for order in orders:
        await log.publish(order)
        await handle_all(log, ports={"gateway": Outside()})
        await asyncio.sleep(0.002)


async def test_a_deadline_that_emitted_nothing_and_is_due_no_more_is_named_from_its_time_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_log("memory://", make_shop(set())) as log:
        deadline = deadline_of(log)
        monkeypatch.setattr(deadline, "handler", Handler(lambda _: [], (Expired,), wants_meta=False))
        monkeypatch.setattr(deadline, "due_at", lambda _: LONG_AGO)
        await handled(log, Ordered(order_id="1", cents=5))
        assert (await replay(log)).same
        monkeypatch.setattr(deadline, "due_at", lambda _: None)
        assert {each.kind for each in (await replay(log)).first} == {"no-deadline"}
        assert (await replay(log, since=datetime.now(UTC) + timedelta(hours=1))).same


async def test_a_deadline_that_has_passed_is_not_overdue_after_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await handled(log, Ordered(order_id="1", cents=5))
        due_at = datetime.now(UTC)
        monkeypatch.setattr(deadline_of(log), "due_at", lambda _: due_at)
        async with Runtime(log, ports={"gateway": Outside()}), asyncio.timeout(120):
            while not await everything(log, "expiries"):
                await asyncio.sleep(0.01)
        await handled(log, Ordered(order_id="1", cents=5))
        monkeypatch.setattr(replaying, "code_version", lambda _: "another")
        report = await replay(log)
        assert report.same, report.first


async def test_no_deadline_of_a_parked_key_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = set[str]()
    async with open_log("memory://", make_shop(broken)) as log:
        await handled(log, *[Ordered(order_id=each, cents=5) for each in ("parked", "goes on")])
        due_at = datetime.now(UTC)
        broken.add("parked")
        await handled(log, *[Ordered(order_id=each, cents=5) for each in ("parked", "goes on")])
        broken.clear()
        monkeypatch.setattr(deadline_of(log), "due_at", lambda _: due_at)
        monkeypatch.setattr(replaying, "code_version", lambda _: "another")
        assert {(each.key, each.kind) for each in (await replay(log)).first} == {("goes on", "overdue")}


async def test_a_request_about_a_saga_that_is_under_way_is_compared_with_it() -> None:
    async with open_log("memory://", make_shop(set())) as log:
        await handled(log, *[Ordered(order_id="1", cents=5)] * 2)
        (first, _) = await everything(log, "orders.requests")
        assert (await replay(log, sagas={first.event_id})).decisions == (await replay(log)).decisions > 4


class Begun(Event, topic="tales", key="order_id"):
    order_id: str


class Told(Event, topic="tales", key="order_id"):
    order_id: str


class Heard(Event, topic="heard", key="order_id"):
    order_id: str


class Over(Event, topic="overs", key="order_id", final=True):
    order_id: str
    because: str


@dataclass(frozen=True)
class Tale:
    due_at: datetime | None = None


def later_told() -> type[Event]:
    class Told(Event, topic="tales", key="order_id"):
        order_id: str
        by: str

    return Told


def telling(told: type[Event] = Told) -> Choreography:
    """Return a service that ends a tale at once, and says which event was the last one about it."""
    tales: Decider[Tale] = Decider("tale", state=Tale, key="order_id")

    @tales.evolve
    def evolve(tale: Tale, event: Event, meta: Meta) -> Tale:
        return Tale(meta.recorded_at) if isinstance(event, Begun) else tale

    @tales.on(Begun)
    def begin(_tale: Tale, _event: Begun) -> list[Never]:
        return []

    @tales.on(told)
    def tell(_tale: Tale, event: Any) -> list[Heard]:
        return [Heard(order_id=event.order_id)]

    @tales.deadline
    def over_at(tale: Tale) -> datetime | None:
        return tale.due_at

    @over_at.passed
    def end(_tale: Tale, meta: Meta) -> list[Over]:
        return [Over(order_id=meta.subject, because=meta.causation_id or "")]

    return Choreography("telling", [Service("tales", deciders=[tales])])


async def test_a_deadline_follows_from_the_last_event_about_its_key_also_where_that_left_the_state_as_it_was() -> None:
    async with open_log("memory://", telling()) as log:
        await log.publish_many([Publication(Begun(order_id="1")), Publication(Told(order_id="1"))])
        async with Runtime(log), asyncio.timeout(60):
            while not await everything(log, "overs"):
                await asyncio.sleep(0.01)
        (heard,), (over,) = await everything(log, "heard"), await everything(log, "overs")
        assert log.decode(over) == Over(order_id="1", because=heard.event_id)
        report = await replay(log)
        assert report.same, report.first


async def test_an_input_that_the_code_cannot_read_any_more_is_a_difference() -> None:
    async with open_log("memory://", telling()) as log:
        await log.publish(Told(order_id="1"))
        await handle_all(log)
        report = await replay(EventLog(log.port, log.codec, telling(later_told())))
        assert {(each.key, each.kind) for each in report.first} == {("1", "unreadable")}


MONDAY = datetime(2026, 10, 26, 0, 30, tzinfo=ZoneInfo("Europe/Berlin"))


def made() -> tuple[Choreography, Any]:
    class Asked(Event, topic="asked", key="key", request=True):
        key: str
        count: int = 0

    class Planned(Event, topic="planned", key="key"):
        key: str
        at: datetime

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
    assert "the code is that which decided then" in difference.why


async def test_nothing_differs_on_a_log_of_today(tmp_path: Path) -> None:
    await recorded(f"sqlite:///{tmp_path}/log.db")
    assert (await replayed(f"sqlite:///{tmp_path}/log.db")).same
