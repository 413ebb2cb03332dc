"""Queryable state: a stranger's decider read by key, by range and by index, on an instance that runs no service."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Runtime, Service, open_log, replace
from eventlib.errors import ContractError, WiringError
from eventlib.queries import SagaIndex, StateIndex, StateRow
from tests.apps.lessons import APP, INDEXES, ExamMarked, Grade, Pupil, pupils, sit_tests

TEN_S = 10.0


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db", APP) as opened:
        yield opened


def grade_of(points: int, tests: int) -> Grade:
    return Grade.NEW if tests < 2 else Grade.BEST if points > 100 else Grade.GOOD


def seen(rows: list[StateRow[Pupil]]) -> dict[str, tuple[str | None, int, int]]:
    return {row.key: (row.state.school, row.state.points, len(row.state.marks)) for row in rows}


async def test_states_are_read_by_key_by_range_and_by_index(log: EventLog) -> None:
    expected = await sit_tests(log, 120)
    async with StateIndex(log, pupils, INDEXES) as index:
        assert await index.caught_up(TEN_S)
        assert seen(index.range(limit=1_000)) == expected
        assert [row.key for row in index.range("p003", "p010")] == sorted(k for k in expected if "p003" <= k < "p010")
        for key, facts in expected.items():
            row = index.get(key)
            assert row is not None
            assert seen([row]) == {key: facts}
            assert row == await index.current(key, TEN_S)
        for grade in Grade:
            wanted = {key: facts for key, facts in expected.items() if grade_of(*facts[1:]) is grade}
            assert seen(index.where({"grade": grade}, limit=1_000)) == wanted
        assert index.get("nobody") is None
        assert await index.current("nobody", TEN_S) is None


@pytest.mark.parametrize("descending", [False, True])
async def test_pages_are_whole_and_in_order(log: EventLog, descending: bool) -> None:
    expected = await sit_tests(log, 120)
    async with StateIndex(log, pupils, INDEXES) as index:
        assert await index.caught_up(TEN_S)
        wanted = sorted(((p, key) for key, (s, p, _) in expected.items() if s == "s1"), reverse=descending)
        paged, after = list[tuple[int, str]](), None
        while page := index.where({"school": "s1"}, order_by="points", descending=descending, after=after, limit=3):
            paged += [(row.state.points, row.key) for row in page]
            after = paged[-1]
        assert paged == wanted
        between = index.where({"school": "s1"}, order_by="points", between=(40, 80), descending=descending)
        assert [(row.state.points, row.key) for row in between] == [each for each in wanted if 40 <= each[0] < 80]
        by_time = index.where(order_by="since", descending=descending, limit=1_000)
        times = [(row.state.since, row.key) for row in by_time if row.state.since is not None]
        assert times == sorted(times, reverse=descending)
        assert len(times) == len(expected)
        assert index.where(order_by="since", between=(datetime.now(UTC) + timedelta(days=1), None)) == []


async def test_a_query_reads_no_more_than_it_returns(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own plan: each query goes through an index, and none sorts."""
    await sit_tests(log, 40)
    async with SagaIndex(log, pupils, INDEXES) as index:
        assert await index.caught_up(TEN_S)
        asked = list[tuple[str, tuple[object, ...]]]()
        ask = index.rows

        def noted(question: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
            asked.append((question, values))
            return ask(question, values)

        monkeypatch.setattr(index, "rows", noted)
        for descending in (False, True):
            index.where({"school": "s1"}, order_by="points", descending=descending, after=(5, "p001"))
            index.where({"grade": "new", "school": "s1"}, order_by="since", descending=descending, between=(0, 9**15))
            index.where({"grade": "new"}, descending=descending, after=(None, "p001"))
            index.where(order_by="since", descending=descending)
        index.get("p001")
        index.range("p", "q")
        index.events("p001", 3)
        index.has_events("p001")
        index.first("p001", ExamMarked)
        for question, values in asked:
            plan = [row[3] for row in ask(f"EXPLAIN QUERY PLAN {question}", values)]
            assert not [step for step in plan if "SCAN" in step and "states_2" not in step], plan
            if "FROM events" not in question:  # a saga's own events are merged
                assert not [step for step in plan if "TEMP" in step], plan


async def test_a_query_that_no_index_serves_says_which_one_to_declare(log: EventLog) -> None:
    async with StateIndex(log, pupils, INDEXES) as index:
        with pytest.raises(ContractError, match=r"declare \('grade', 'points'\) in `indexes`"):
            index.where({"grade": "new"}, order_by="points")
        with pytest.raises(ContractError, match=r"range\(\) reads states by key"):
            index.where()
        with pytest.raises(ContractError, match="give that, too"):
            index.where({"grade": "new"}, between=(1, 2))
        with pytest.raises(ContractError, match="limit is 0"):
            index.where({"grade": "new"}, limit=0)
        with pytest.raises(ContractError, match="no index compares that"):
            index.where({"grade": [1]})
        with pytest.raises(ContractError, match="is no input of lessons"):
            await index.decided("praise", 0, 0, 0.1)


@pytest.mark.parametrize(
    ("indexes", "sentence"),
    [
        ([("shoes",)], "'shoes', which is no public attribute of Pupil"),
        ([("__class__",)], "no public attribute"),
        ([("average",)], "average is Decimal"),
        ([("marks",)], r"marks is tuple \(\)"),
        ([()], r"index \(\) of pupil has to name attributes"),
        ([("school", "school")], "each of them once"),
    ],
)
async def test_an_index_that_cannot_be_made_is_refused_at_once(
    log: EventLog, indexes: list[tuple[str, ...]], sentence: str
) -> None:
    with pytest.raises(WiringError, match=sentence):
        StateIndex(log, pupils, indexes)


async def test_what_was_published_is_read_once_it_is_decided(log: EventLog) -> None:
    async with StateIndex(log, pupils, INDEXES) as index:
        at = await log.publish(ExamMarked(pupil="p", school="s", points=7))
        assert not await index.decided(at.topic, at.partition, at.offset, 0.05)
        assert await index.backlog("tests") == 1
        waiting = asyncio.create_task(index.until("p", lambda: index.get("p") is not None, TEN_S))
        async with Runtime(log):
            assert await index.decided(at.topic, at.partition, at.offset, TEN_S)
            assert await waiting
            row = index.get("p")
            assert row is not None
            assert row.state.points == 7
            assert row.correlation_id is not None
            assert row.changed_at >= at.recorded_at
            assert await index.backlog("tests") == 0
            assert index.handled("tests", at.partition) == at.offset + 1


async def test_a_state_that_is_forgotten_is_gone(log: EventLog) -> None:
    async with StateIndex(log, pupils, INDEXES) as index, Runtime(log) as runtime:
        at = await log.publish(ExamMarked(pupil="p", school="s", points=7))
        assert await index.decided(at.topic, at.partition, at.offset, TEN_S)
        at = await log.publish(ExamMarked(pupil="p", school="s", points=-9))
        await runtime.idle()
        assert await index.until("p", lambda: index.get("p") is None, TEN_S)
        assert index.range() == [] == index.where({"school": "s"}, order_by="points")


async def test_a_changed_index_is_made_anew(log: EventLog, tmp_path: Path) -> None:
    expected = await sit_tests(log, 40)
    for indexes in ([("points",)], [("points",), ("school", "points")]):
        async with StateIndex(log, pupils, indexes, path=tmp_path / "own.db") as index:
            assert await index.caught_up(TEN_S)
            assert len(index.where(order_by="points", limit=1_000)) == len(expected)


async def test_a_decider_without_keys_has_its_states_by_partition(tmp_path: Path) -> None:
    class Drop(Event, topic="drops", key=None):
        litres: int

    @dataclass(frozen=True)
    class Bucket:
        litres: int = 0

    buckets = Decider("bucket", state=Bucket, key=None)

    @buckets.evolve
    def fill(bucket: Bucket, event: Event) -> Bucket:
        return replace(bucket, litres=bucket.litres + event.litres) if isinstance(event, Drop) else bucket

    buckets.follows(Drop)
    app = Choreography("rain", [Service("rain", deciders=[buckets])])
    async with open_log(f"sqlite:///{tmp_path}/log.db", app) as log, Runtime(log) as runtime:
        places = [await log.publish(Drop(litres=n)) for n in range(1, 20)]
        await runtime.idle()
        async with StateIndex(log, buckets, [("litres",)]) as index:
            assert await index.caught_up(TEN_S)
            rows = index.where(order_by="litres")
            assert {row.key for row in rows} == {str(at.partition) for at in places}
            assert sum(row.state.litres for row in rows) == sum(range(1, 20))
            assert index.partition_of("3") == 3
            with pytest.raises(ContractError, match="give a partition's number"):
                index.partition_of("north")
        with pytest.raises(WiringError, match="use StateIndex"):
            SagaIndex(log, buckets)
