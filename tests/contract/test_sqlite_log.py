"""What the SQLite log and its stores do beyond their ports: upkeep, group commit, bounds, and what people see."""

import asyncio
import os
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from eventlib.errors import ContractError, LogUnavailable
from eventlib.log.base import TOMBSTONES_KEPT, Log
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.state.base import Stores
from eventlib.state.sqlite import SqliteStores
from eventlib.values import now_ms
from tests import compiled_core
from tests.in_rows import change_row

PATIENCE_S = 120.0
TOPICS = [
    Topic("a", partitions=2),
    Topic("compact", partitions=1, compacted=True),
    Topic("kilobytes", partitions=1, retention_bytes=100_000),
]


def record(topic: str, value: bytes = b"x", key: bytes = b"k") -> Record:
    return Record(topic, 0, -1, now_ms(), key, value)


async def opened(place: Path, options: SqliteOptions | None = None) -> SqliteLog:
    log = await SqliteLog.open(place / "log.db", options=options)
    await log.create_topics(TOPICS)
    return log


async def count(log: Log, topic: str) -> int:
    return len(await log.read(topic, 0, 0, 1_000_000))


def size_of(place: Path) -> int:
    return os.path.getsize(place)  # noqa: PTH202  short enough for a loop


async def test_upkeep_runs_by_itself_and_beside_appends(tmp_path: Path) -> None:
    log = await opened(tmp_path, SqliteOptions(compact_floor=500))
    appended = 0
    for _ in range(50):
        await log.append([record("compact", b"%d" % i, b"k%d" % (i % 50)) for i in range(200)])
        await log.append([record("kilobytes", b"x" * 1_000) for _ in range(100)])
        appended += 300
        await asyncio.sleep(0.01)
    async with asyncio.timeout(PATIENCE_S):
        while (left := await count(log, "compact") + await count(log, "kilobytes")) > 2_000:
            await asyncio.sleep(0.05)
    assert left < appended / 5
    assert await log.end("compact", 0) == 10_000
    await log.close()


async def test_a_file_that_is_compacted_does_not_grow(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    sizes = list[int]()
    for _ in range(6):
        for _ in range(10):
            await log.append([record("compact", b"x" * 500, b"k%d" % i) for i in range(200)])
        await log.compact()
        assert await count(log, "compact") == 200
        sizes.append(size_of(tmp_path / "log.db"))
    assert sizes[-1] <= sizes[1] * 1.2
    await log.close()


async def test_the_journal_stays_small_beside_a_reader(tmp_path: Path) -> None:
    log, other = await opened(tmp_path), await opened(tmp_path)
    reader = other.reader({("a", 0): 0})
    largest = 0
    for _ in range(150):
        await log.append([record("a", b"x" * 500) for _ in range(200)])
        assert await reader.poll(50)
        largest = max(largest, size_of(tmp_path / "log.db-wal"))
    assert largest < 16_000_000
    await log.close()
    await other.close()


async def test_appends_of_one_pass_share_a_transaction(tmp_path: Path) -> None:
    log, other = await opened(tmp_path), sqlite3.connect(tmp_path / "log.db")
    versions = {other.execute("PRAGMA data_version").fetchone()[0]}

    async def see() -> None:
        for _ in range(10):
            versions.add(other.execute("PRAGMA data_version").fetchone()[0])
            await asyncio.sleep(0)

    await asyncio.gather(*(log.append([record("a", b"%d" % i)]) for i in range(100)), see())
    assert len(versions) == 2
    assert await count(log, "a") == 100
    other.close()
    await log.close()


async def test_a_record_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    misfits = [record("a").replace(sequence=2**70), record("a").replace(id="\ud800")]
    if compiled_core.runs():
        with pytest.raises(TypeError, match="bytes or None object expected; got list"):
            record("a").replace(key=[])
        misfits.append(record("a").replace(sequence=-(2**70)))
    else:
        misfits.append(record("a").replace(key=[]))
    appends = [log.append([record("a"), misfit]) for misfit in misfits]
    answers = await asyncio.gather(
        log.append([record("a")]), *appends, log.append([record("a")]), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [list, ContractError, ContractError, ContractError, list]
    assert await count(log, "a") == 2
    assert await log.append([record("a")]) == [2]
    await log.close()


async def test_an_append_that_is_cancelled_before_its_turn_is_not_made(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    cancelled = asyncio.create_task(log.append([record("a")]))
    await asyncio.sleep(0)
    cancelled.cancel()
    await log.append([record("a", b"made")])
    assert [r.value for r in await log.read("a", 0, 0, 10)] == [b"made"]
    await log.close()


async def test_closing_ends_what_waits(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    member = await log.join("s", 1)
    held = await member.changed({})
    waiting = [
        asyncio.create_task(log.reader({("a", 0): 0}).poll(1)),
        asyncio.create_task(log.append([record("a")])),
        asyncio.create_task(member.changed(held)),
    ]
    await asyncio.sleep(0)
    await log.close()
    for outcome in await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S):
        assert isinstance(outcome, LogUnavailable)


async def test_topics_made_by_another_process_are_seen(tmp_path: Path) -> None:
    log, other = await opened(tmp_path), await opened(tmp_path)
    await other.create_topics([Topic("later", partitions=1)])
    assert await log.append([record("later")]) == [0]
    await log.create_topics([Topic("latest", partitions=1)])
    assert await other.read("latest", 0, 0, 1) == []
    assert set(await log.topics()) == set(await other.topics())
    await log.close()
    await other.close()


async def test_many_readers_that_wait_look_at_the_file_no_more_often_than_one(tmp_path: Path) -> None:
    file = await LogFile.open(tmp_path / "log.db", SqliteOptions(watch_active_s=0.02, watch_idle_s=0.02))
    log = SqliteLog(file, "")
    await log.create_topics(TOPICS)
    looks = list[str]()
    file.connection.set_trace_callback(looks.append)
    waiting = [asyncio.create_task(log.reader({("a", each % 2): 0}).poll(1)) for each in range(20)]
    began = 0.0
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(2):  # the first looks are those of the readers themselves
            looks.clear()
            began = asyncio.get_running_loop().time()
            while len(looks) < 10:
                await asyncio.sleep(0.01)
    assert len(looks) <= (asyncio.get_running_loop().time() - began) / 0.02 + 2
    for each in waiting:
        each.cancel()
    await log.close()


async def test_people_can_read_it_with_sqlite_alone(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    said = record("a", b"\x00\x01", b"order-1").replace(
        timestamp_ms=1_700_000_000_123, type="StockReserved", id="i", headers=(("trace", "ü".encode()),)
    )
    await log.append([record("a"), said])
    await log.close()
    connection = sqlite3.connect(tmp_path / "log.db")
    rows = connection.execute(
        'SELECT topic, partition, "offset", recorded_at, "key", type, id, bytes, headers FROM log WHERE topic = \'a\''
    ).fetchall()
    assert rows[1] == (
        "a", 0, 1, "2023-11-14T22:13:20.123Z", "order-1", "StockReserved", "i", 2, '[["trace", "\\u00fc"]]',
    )  # fmt: skip
    connection.close()


def with_key(place: Path) -> Stores:
    stores = SqliteStores(place)
    store = stores.open("s", 0, 1, "log")
    store.write({f"k{i}": b"1" * 100 for i in range(1_000)}, 5)
    return stores


@pytest.mark.parametrize("content", [b"", b"garbage" * 1_000, b"SQLite format 3\x00" + b"?" * 9_000])
def test_a_damaged_store_begins_anew(tmp_path: Path, content: bytes) -> None:
    with_key(tmp_path).close()
    (tmp_path / "s.db").write_bytes(content)
    stores = SqliteStores(tmp_path)
    store = stores.open("s", 0, 1, "log")
    assert (store.checkpoint, store.get("k1")) == (0, None)
    store.write({"k1": b"2"}, 1)
    stores.close()
    stores = SqliteStores(tmp_path)
    assert stores.open("s", 0, 1, "log").get("k1") == b"2"
    stores.close()


def test_a_store_whose_damage_shows_later_is_given_up_and_begins_anew(tmp_path: Path) -> None:
    with_key(tmp_path).close()
    size = size_of(tmp_path / "s.db")
    with (tmp_path / "s.db").open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(b"\xff" * (size - 3 * 4_096))
    stores = SqliteStores(tmp_path)
    store = stores.open("s", 0, 1, "log")
    with pytest.raises(LogUnavailable, match="restore the changelog"):
        list(store.scan(""))
    with pytest.raises(LogUnavailable):
        store.write({"k": b"1"}, 9)
    again = stores.open("s", 0, 1, "log")
    assert (again.checkpoint, list(again.scan(""))) == (0, [])
    stores.close()


def test_a_store_that_may_have_missed_a_tombstone_comes_back_empty(tmp_path: Path) -> None:
    with_key(tmp_path).close()
    long_ago = now_ms() - int(TOMBSTONES_KEPT.total_seconds() * 1_000)
    change_row(tmp_path / "s.db", "UPDATE tasks SET flushed_at = ?", long_ago)
    stores = SqliteStores(tmp_path)
    store = stores.open("s", 0, 1, "log")
    assert (store.checkpoint, store.get("k1")) == (0, None)
    stores.close()


async def test_a_topic_that_is_made_anew_by_who_never_knew_it_gives_no_offset_twice(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics([Topic("again", partitions=1)])
    await log.append([record("again") for _ in range(5)])
    await log.delete_topics(["again"])
    await log.close()
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics([Topic("again", partitions=1)])
    assert await log.append([record("again")]) == [5]
    await log.close()


async def test_what_is_kept_of_the_end_hides_nothing_that_others_append(tmp_path: Path) -> None:
    one, other = [await SqliteLog.open(tmp_path / "log.db") for _ in range(2)]
    await one.create_topics([Topic("a", partitions=1)])
    expected = list[bytes]()
    for number in range(3_000):  # more than is kept, each in turn
        if number % 7 in {1, 2, 5}:
            await other.append([record("a", b"other %d" % number)])
            expected.append(b"other %d" % number)
        else:
            await one.append([record("a", b"one %d" % number)] * 2)
            expected += [b"one %d" % number] * 2
        first = max(0, len(expected) - number % 40)
        if number % 3 == 0:
            found = await one.read("a", 0, first, 100)
            assert [(r.offset, r.value) for r in found] == [*enumerate(expected[first:], first)]
    found = await one.read("a", 0, 0, len(expected) + 1)
    assert [r.value for r in found] == expected
    for log in (one, other):
        await log.close()


async def test_what_is_older_than_its_topic_keeps_goes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.log.sqlite.retention.RETAIN_EVERY_S", 0.01)
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics([Topic("hour", partitions=1, retention=timedelta(hours=1)), Topic("kept", partitions=1)])
    old = Record("hour", 0, -1, now_ms() - 7_200_000, b"k", b"v")
    await log.append([old, old, old.replace(topic="kept")])
    async with asyncio.timeout(PATIENCE_S):
        while await log.start("hour", 0) < 2:
            await asyncio.sleep(0.02)
    assert await log.start("kept", 0) == 0
    await log.close()
