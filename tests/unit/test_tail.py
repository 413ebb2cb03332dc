"""Topics as one stream: merged by time, each partition whole and in its own order, and what comes later."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from eventlib.errors import ContractError
from eventlib.log.memory import MemoryLog
from eventlib.log.reading import chunks
from eventlib.log.sqlite.state import MOST_RECORDS, RecentRecords
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.queries.stream import Start, start_of, tail

TOPICS = [Topic("a", partitions=2), Topic("b", partitions=1)]


def record(topic: str, partition: int, at_ms: int, name: str) -> Record:
    return Record(topic, partition, -1, at_ms, name.encode(), b"", id=name)


async def log_of(*records: Record) -> MemoryLog:
    log = MemoryLog()
    await log.create_topics(TOPICS)
    await log.append(records)
    return log


async def read(log: MemoryLog, start: Start = "earliest", topics: tuple[str, ...] = ("a", "b")) -> list[str]:
    return [found.event_id async for batch in tail(log, topics, start) for found in batch]


async def test_partitions_are_merged_by_time_then_topic_and_partition() -> None:
    log = await log_of(
        record("b", 0, 5, "b5"), record("a", 1, 5, "a1-5"), record("a", 0, 5, "a0-5"), record("a", 0, 7, "a7")
    )
    await log.append([record("b", 0, 6, "b6")])
    assert await read(log) == ["a0-5", "a1-5", "b5", "b6", "a7"]


async def test_a_partition_keeps_its_order_when_its_times_go_backwards() -> None:
    log = await log_of(*(record("b", 0, at, f"{at}") for at in (9, 3, 5)), record("a", 0, 4, "a"))
    found = await read(log)
    assert [name for name in found if name != "a"] == ["9", "3", "5"]


async def test_more_than_a_chunk_of_each_partition() -> None:
    log = await log_of(
        *(record("a", at % 2, at, f"{at}") for at in range(3_000)),
        *(record("b", 0, at, f"{at}") for at in range(3_000, 5_000)),
    )
    assert await read(log) == [f"{at}" for at in range(5_000)]


async def test_it_starts_at_an_offset_a_time_or_the_end() -> None:
    log = await log_of(*(record("b", 0, at * 1_000, f"{at}") for at in range(5)), record("a", 0, 0, "a"))
    assert await read(log, 3) == ["3", "4"]
    assert await read(log, datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)) == ["2", "3", "4"]
    assert await read(log, "latest") == []
    assert await read(log, "earliest", ("a", "a")) == ["a"]


async def test_following_brings_what_comes_later_once() -> None:
    log = await log_of(record("a", 0, 1, "before"))
    found = list[str]()
    async with asyncio.timeout(120), aclosing(tail(log, ["a", "b"], follow=True)) as batches:
        async for batch in batches:
            found += [each.event_id for each in batch]
            if found == ["before"]:
                await log.append([record("b", 0, 9, "9"), record("b", 0, 3, "3"), record("a", 1, 10, "10")])
            if len(found) == 4:
                break
    assert found == ["before", "9", "3", "10"]


async def test_a_topic_that_is_not_there() -> None:
    log = await log_of()
    with pytest.raises(ContractError, match="there is no topic 'c' on this log"):
        await read(log, topics=("c",))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("12", 12),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T13:00:00+01:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_where_to_start(text: str, start: Start) -> None:
    assert start_of(text) == start


@pytest.mark.parametrize("first", range(8))
async def test_nothing_is_left_out_or_twice_where_one_chunk_ends_and_another_begins(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.log.reading.CHUNK", 3)
    log = MemoryLog()
    await log.create_topics([Topic("a", partitions=1)])
    await log.append([Record("a", 0, -1, 1, b"k", b"%d" % n) for n in range(7)])
    found = [record.offset async for records in chunks(log, ("a", 0), first) for record in records]
    assert found == [*range(first, 7)]


def records(count: int) -> list[Record]:
    return [Record("t", 0, -1, 1, b"k", b"%d" % number) for number in range(count)]


def test_it_is_read_with_offsets_and_up_to_its_end() -> None:
    recent = RecentRecords(10)
    assert recent.extend(10, records(3))
    assert [(each.offset, each.value) for each in recent.read(11, 5, 13) or []] == [(11, b"1"), (12, b"2")]
    assert recent.read(13, 5, 13) == []
    assert recent.read(9, 5, 13) is None, "it was there before"
    assert recent.read(11, 5, 14) is None, "another process has appended since"


def test_appends_that_follow_each_other_are_read_as_one() -> None:
    recent = RecentRecords(10)
    recent.extend(10, records(3))
    recent.extend(13, records(2))
    assert [each.offset for each in recent.read(10, 9, 15) or []] == [10, 11, 12, 13, 14]


def test_a_gap_begins_it_anew() -> None:
    recent = RecentRecords(0)
    recent.extend(0, records(3))
    recent.extend(7, records(2))
    assert recent.read(0, 5, 9) is None
    assert [each.offset for each in recent.read(7, 5, 9) or []] == [7, 8]


def test_what_is_not_read_before_it_has_to_go_is_not_worth_keeping() -> None:
    recent, end = RecentRecords(0), 0
    kept = list[bool]()
    for is_read in (True, False, True):
        if is_read:
            recent.read(end, 1, end)
        kept.append(recent.extend(end, records(MOST_RECORDS + 1)))
        end += MOST_RECORDS + 1
    assert kept == [True, False, True]
