"""Sagas are found by what they wait for, whatever it is called; their events are those that the log has."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Never

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log
from eventlib.queries import ProjectionBehind, SagaIndex
from eventlib.queries.sagas import find_saga
from eventlib.search import SagaQuery, SagaSearch, Searchable
from eventlib.sql import SqlQuery, ask
from tests.apps.lessons import APP, INDEXES, ExamMarked, pupils, sit_tests

BELLS = [f"bell-{number}" for number in range(12)]


class Rung(Event, topic="rings", key=None):
    """A bell was rung, in a tower that nothing keys: each partition has one state."""

    bell: str
    number: int


class Hushed(Event, topic="hushes", key="bell", final=True):
    """It is silent again; its attributes are called as columns of an index are."""

    bell: str
    failure: Annotated[str, Searchable]
    is_told: Annotated[int, Searchable]


@dataclass(frozen=True)
class Tower:
    """How often the bells of a partition were rung."""

    rings: int = 0


towers = Decider("tower", state=Tower, key=None)


@towers.on
def ring(_tower: Tower, rung: Rung) -> list[Hushed]:
    return [Hushed(bell=rung.bell, failure=f"crack {rung.number % 2}", is_told=rung.number % 3)]


@towers.evolve
def rang(tower: Tower, _event: Event) -> Tower:
    return replace(tower, rings=tower.rings + 1)


@towers.deadline
def hushed_at(tower: Tower) -> datetime | None:
    return datetime(2100, 1, 1, tzinfo=UTC) if tower.rings else None


@hushed_at.passed
def hush(_tower: Tower) -> list[Never]:
    return []


app = Choreography("bells", [Service("tower", deciders=[towers])])


async def test_each_partitions_deadline_is_waited_for_and_any_name_is_searched_by(tmp_path: Path) -> None:
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log:
        async with Runtime(log) as runtime:
            for number, bell in enumerate(BELLS):
                await log.publish(Rung(bell=bell, number=number))
            await runtime.idle()
        due = (await ask(log, SqlQuery("SELECT count(*) FROM deadlines"))).rows[0][0]
        async with SagaSearch(log) as search:
            assert await search.caught_up(10)
            waiting = await search.page(SagaQuery("waiting_for = 'tower.hushed_at'", limit=100))
            cracked = await search.page(SagaQuery("failure = 'crack 1' and is_told = 0", "saga"))
    assert len(waiting.sagas) == due > 1
    assert [each["saga"] for each in cracked.sagas] == ["bell-3", "bell-9"]


TEN_S = 10.0


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as opened:
        yield opened


async def test_the_events_of_a_saga_are_those_that_the_log_has(log: EventLog) -> None:
    expected = await sit_tests(log, 60)
    async with SagaIndex(log, pupils, INDEXES) as index:
        assert await index.caught_up(TEN_S)
        other_key = 0
        for key in expected:
            saga = await find_saga(log, key)
            events = index.events(key)
            assert {record.location for _, record in events} == {event.record.location for event in saga.events}
            known = {e.record.location: e.record.replace(traceparent=None) for e in saga.events}
            assert all(record == known[record.location] for _, record in events)
            other_key += sum(record.topic == "schools" for _, record in events)
            middle = events[len(events) // 2][0]
            assert index.events(key, middle) == [event for event in events if event[0] > middle]
            first = index.first(key, ExamMarked)
            assert first is not None
            assert first.offset == min(record.offset for _, record in events if record.type == "ExamMarked")
        assert other_key
        assert index.first("nobody", ExamMarked) is None is await index.first_current("nobody", ExamMarked, TEN_S)


async def test_the_first_event_is_found_also_where_the_index_is_behind(log: EventLog) -> None:
    async with SagaIndex(log, pupils) as index:
        assert await index.caught_up(TEN_S)
        index._following.cancel()  # type: ignore[union-attr]  # noqa: SLF001  it reads no further
        first = await log.publish(ExamMarked(pupil="p", school="s", points=1), headers={"who": "é"})
        second = await log.publish(ExamMarked(pupil="p", school="s", points=2))
        assert index.first("p", ExamMarked) is None
        found = await index.first_before("p", ExamMarked, second.offset)
        assert found is not None
        assert found.offset == first.offset
        assert await index.first_before("p", ExamMarked, first.offset) is None
        with pytest.raises(ProjectionBehind):
            await index.first_current("p", ExamMarked, 0.05)
    async with SagaIndex(log, pupils) as index:
        assert await index.caught_up(TEN_S)
        kept = index.first("p", ExamMarked)
        assert kept == found.replace(traceparent=None)
        assert kept.headers == (("who", "é".encode()),)
