"""The events of each saga beside the states: as the log has them, also where the index is behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventlib import EventLog, open_log
from eventlib.queries import ProjectionBehind, SagaIndex
from eventlib.queries.sagas import find_saga
from tests.apps.lessons import APP, INDEXES, ExamMarked, pupils, sit_tests

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
