"""A projection or a store whose file does not fit its log begins anew, or says that records are missing."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from eventlib import Choreography, EventLog, Runtime, Service, open_log
from eventlib.errors import TailLost, WiringError
from eventlib.log.checksum import seal
from eventlib.queries.projection import Projection
from eventlib.state.sqlite import SqliteStores
from tests.integration.bank_view import BANK, TABLES, TOTALS, Transferred, accounts, expected, pay, rows, transfers


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db", BANK) as opened:
        yield opened


async def test_it_begins_anew_with_other_tables_another_version_and_another_log(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await pay(log, 10)
    other_tables = replace(TOTALS, tables=TABLES + "; CREATE INDEX by_cents ON totals (cents)")
    for view in (TOTALS, other_tables, replace(other_tables, version=2), TOTALS):
        async with Projection(log, view, path) as projection:
            assert await projection.caught_up(10)
            assert rows(projection) == expected(10)
    async with (
        open_log(f"sqlite:///{tmp_path}/other.db", BANK) as other,
        Projection(other, TOTALS, path) as projection,
    ):
        assert await projection.caught_up(10)
        assert rows(projection) == []


async def test_a_projection_that_has_seen_more_than_the_log_has_says_so(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    await pay(log, 10)
    async with Projection(log, TOTALS, path) as projection:
        assert await projection.caught_up(10)
    ahead = sqlite3.connect(path)
    ahead.execute("UPDATE eventlib_positions SET next = next + 1000")
    ahead.commit()
    ahead.close()
    async with Projection(log, TOTALS, path) as projection:
        with pytest.raises(TailLost, match=r"own\.db has seen it up to 1\d+: acknowledged records are missing"):
            await projection.failed()


async def test_a_store_that_has_seen_more_than_the_changelog_has_stops_its_task(log: EventLog, tmp_path: Path) -> None:
    path = tmp_path / "stores" / "bank.db"
    await pay(log, 10)
    stores = SqliteStores(path.parent)
    async with Runtime(log, stores=stores) as running:
        await running.idle()
    stores.close()
    with closing(sqlite3.connect(path)) as ahead:
        rows = ahead.execute("SELECT partition, epoch, log_id, checkpoint + 1000, flushed_at FROM tasks").fetchall()
        ahead.executemany("REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?)", [(*row, seal(*row)) for row in rows])
        ahead.commit()
    stores = SqliteStores(path.parent)
    with pytest.raises(TailLost, match="the local store of bank has seen it up to"):
        async with asyncio.timeout(120), Runtime(log, stores=stores) as running:
            await running.failed()
    stores.close()


@pytest.mark.parametrize(("undecoded", "rows_left"), [((), 8), (("bank.changelog",), 7)])
async def test_after_a_long_absence_deletions_may_be_missed_so_compacted_topics_are_read_anew(
    log: EventLog, tmp_path: Path, undecoded: tuple[str, ...], rows_left: int
) -> None:
    path, view = tmp_path / "own.db", replace(TOTALS, undecoded=undecoded)
    await pay(log, 10)
    async with Projection(log, view, path) as projection:
        assert await projection.caught_up(10)
    absent = sqlite3.connect(path)
    absent.executescript("UPDATE eventlib_read SET read_at = 0; INSERT INTO totals VALUES ('gone', 1, 1)")
    absent.close()
    async with Projection(log, view, path) as projection:
        assert await projection.caught_up(10)
        assert len(rows(projection)) == rows_left


async def test_topics_are_read_apart_and_each_has_an_absence_of_its_own(log: EventLog, tmp_path: Path) -> None:
    path, view = tmp_path / "own.db", replace(TOTALS, undecoded=("bank.changelog",))
    await pay(log, 10)
    async with Runtime(log) as runtime:
        await runtime.idle()

    async def left_by(*topics: str) -> tuple[int, set[str]]:
        async with Projection(log, view, path, topics=topics) as projection:
            assert await projection.caught_up(10)
            return len(rows(projection)), {topic for topic, _ in projection.positions}

    assert await left_by("bank.changelog") == (0, {"bank.changelog"})
    assert await left_by("payments") == (7, {"bank.changelog", "payments"})
    with closing(sqlite3.connect(path)) as absent:
        absent.executescript(
            "UPDATE eventlib_read SET read_at = 0 WHERE topics LIKE '%changelog%'; INSERT INTO totals VALUES ('gone', 1, 1)"
        )
    assert (await left_by("payments"))[0] == 8, "nothing was deleted there"
    assert await left_by("bank.changelog") == (0, {"bank.changelog"})
    assert (await left_by("bank.changelog", "payments"))[0] == 7


async def test_a_topic_that_was_declared_later_is_empty_until_it_is_made(log: EventLog, tmp_path: Path) -> None:
    await pay(log, 10)
    later, view = (
        Choreography("bank", [Service("bank", deciders=[accounts, transfers])]),
        replace(TOTALS, topics=["payments", "transfers"]),
    )
    async with (
        open_log(log.port.url, later, read_only=True) as opened,
        Projection(opened, view, tmp_path / "own.db") as projection,
    ):
        assert await projection.caught_up(10)
        assert rows(projection) == expected(10)
        async with open_log(log.port.url, later) as written:
            at = await written.publish(Transferred(customer="c0", cents=5))
        assert await projection.reached(at.topic, at.partition, at.offset, 60)
        assert rows(projection) != expected(10)


async def test_a_topic_that_is_not_declared_ends_it(log: EventLog, tmp_path: Path) -> None:
    async with Projection(log, replace(TOTALS, topics=["payments", "paymnets"]), tmp_path / "own.db") as projection:
        with pytest.raises(WiringError, match="the log has no topic 'paymnets'"):
            await projection.failed()


@pytest.mark.parametrize("content", [b"no database at all" * 1_000, b""])
async def test_a_damaged_file_is_made_again(log: EventLog, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.db"
    await pay(log, 10)
    path.write_bytes(content)
    async with Projection(log, TOTALS, path) as projection:
        assert await projection.caught_up(10)
        assert rows(projection) == expected(10)
