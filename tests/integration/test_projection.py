"""Projections: exactly once over restarts, whatever is damaged or raises, and begun anew where the file does not fit."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eventlib import Choreography, EventLog, Runtime, Service, open_log
from eventlib.errors import ContractError, LogUnavailable, TailLost, WiringError
from eventlib.log.checksum import seal
from eventlib.model.record import Record
from eventlib.queries.projection import Projection, ProjectionBehind
from eventlib.state.sqlite import SqliteStores
from eventlib.values import now_ms
from tests.connections import silent
from tests.handling import handle_all
from tests.in_rows import change_row
from tests.integration.bank_view import (
    BANK,
    TABLES,
    TOTALS,
    Paid,
    Transferred,
    accounts,
    add,
    expected,
    pay,
    rows,
    transfers,
)

WROTE = "SELECT value FROM records WHERE type = 'Paid' AND position & 0xffffffffff = ?"
REWRITE = "UPDATE records SET value = ? WHERE type = 'Paid' AND position & 0xffffffffff = ?"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with open_log(f"sqlite:///{tmp_path}/log.db", BANK) as opened:
        yield opened


async def test_it_follows_and_goes_on_where_it_was(log: EventLog, tmp_path: Path) -> None:
    await pay(log, 1_200)
    async with Projection(log, TOTALS) as projection:
        assert await projection.caught_up(10)
        assert rows(projection) == expected(1_200)
        await pay(log, 50)
        assert await projection.caught_up(10)
    await pay(log, 700)
    async with Projection(log, TOTALS) as projection:
        assert await projection.caught_up(10)
        assert rows(projection) == expected(1_200, 50, 700)
    assert (tmp_path / "log.db.totals.db").exists()


async def test_a_record_counts_once_wherever_among_those_that_were_read_at_once_it_ends(log: EventLog) -> None:
    await pay(log, 300)
    seen = list[int]()
    async with asyncio.timeout(30):
        while not seen or seen[-1] < 300:
            async with Projection(log, TOTALS) as projection:
                projection.batch = 7
                while not (number := sum(n for _, _, n in rows(projection))) or seen[-1:] == [number]:
                    await asyncio.sleep(0)
                seen.append(number)
    assert len(seen) > 1, "it was closed before it had all"
    async with Projection(log, TOTALS) as projection:
        assert rows(projection) == expected(300)


async def test_what_is_damaged_is_gone_past_and_read_once_it_is_mended(log: EventLog, tmp_path: Path) -> None:
    first, lost = [await log.publish(Paid(customer="c", cents=cents)) for cents in (5, 9)]
    file = tmp_path / "log.db"
    with closing(sqlite3.connect(file)) as connection:
        ((value,),) = connection.execute(WROTE, (lost.offset,)).fetchall()
    change_row(file, REWRITE, b"\x00\xff", lost.offset)
    places = [(first.topic, first.partition)]
    async with Projection(log, TOTALS) as projection:
        await log.publish(Paid(customer="c", cents=7))
        assert await projection.caught_up(60)
        assert rows(projection) == [("c", 12, 2)]
    for _ in range(2):  # and a start anew knows it still
        async with Projection(log, TOTALS) as projection:
            assert await projection.caught_up(60)
            assert [*projection.damaged] == [(lost.topic, lost.partition, lost.offset)]
            with pytest.raises(
                ProjectionBehind, match=f"{lost.topic}/{lost.partition}/{lost.offset}, which is damaged"
            ):
                await projection.up_to_date(places, 60)
    change_row(file, REWRITE, value, lost.offset)
    async with Projection(log, TOTALS) as projection:
        await projection.up_to_date(places, 60)
        assert rows(projection) == [("c", 21, 3)]
        assert not projection.damaged


async def test_it_says_how_far_it_has_come(log: EventLog) -> None:
    async with Projection(log, TOTALS) as projection:
        at = await log.publish(Paid(customer="c", cents=5))
        assert await projection.reached(at.topic, at.partition, at.offset, 5)
        assert rows(projection) == [("c", 5, 1)]
        assert not await projection.reached(at.topic, at.partition, at.offset + 1, 0.05)
        with pytest.raises(ContractError, match="does not read topic 'orders'"):
            await projection.reached("orders", 0, 0, 1)


async def test_it_is_made_again_from_the_log(log: EventLog) -> None:
    await pay(log, 900)
    async with Projection(log, TOTALS) as projection:
        await asyncio.sleep(0)
        await projection.rebuild()  # also in the middle of a batch
        assert await projection.caught_up(10)
        assert rows(projection) == expected(900)
        await projection.rebuild()
        assert await projection.caught_up(10)
        assert rows(projection) == expected(900)


async def test_each_instance_has_a_file_of_its_own(log: EventLog, tmp_path: Path) -> None:
    await pay(log, 10)
    async with Projection(log, TOTALS) as one, Projection(log, TOTALS) as two:
        assert await one.caught_up(10)
        assert await two.caught_up(10)
        assert rows(one) == rows(two) == expected(10)
        with pytest.raises(LogUnavailable, match="is open elsewhere"):
            await Projection(log, TOTALS, tmp_path / "log.db.totals-2.db").__aenter__()


async def test_what_cannot_be_read_is_passed_on_as_it_is(log: EventLog) -> None:
    seen = list[tuple[bytes | None, object]]()
    view = replace(
        TOTALS, apply=lambda _db, record, event: seen.append((record.value, event)), undecoded=["bank.control"]
    )
    place = log.choreography.topics[0].partition_of(b"c")
    await log.port.append([Record("payments", place, -1, now_ms(), b"c", b"\xffgarbage", type="Paid", id="1")])
    await log.port.append([Record("bank.control", place, -1, now_ms(), b"c", b"raw")])
    await log.publish(Paid(customer="c", cents=1))
    async with Projection(log, view) as projection:
        assert await projection.caught_up(10)
    assert sorted(seen, key=repr) == sorted(
        [(b"\xffgarbage", None), (b"raw", None), (seen[-1][0], Paid(customer="c", cents=1))], key=repr
    )


async def test_a_view_that_raises_is_not_half_written_and_says_so(log: EventLog) -> None:
    def broken(db: sqlite3.Connection, record: Record, event: Any) -> None:
        add(db, record, event)
        if event.cents == 7:
            raise RuntimeError("a bug in the view")

    await pay(log, 10)
    async with Projection(log, replace(TOTALS, apply=broken)) as projection:
        with pytest.raises(RuntimeError, match="a bug in the view"):
            await projection.failed()
        assert rows(projection) == []
        with pytest.raises(RuntimeError, match="a bug in the view"):
            await projection.caught_up(1)
    async with Projection(log, TOTALS) as projection:
        assert await projection.caught_up(10)
        assert rows(projection) == expected(10)


async def test_a_disk_that_does_not_answer_is_asked_again(log: EventLog) -> None:
    async with Projection(log, TOTALS) as projection:
        await pay(log, 10)
        assert await projection.caught_up(10)
        with silent(projection.db):
            await pay(log, 10)
            assert not await projection.caught_up(1.5)  # it has failed to write, and to begin again
        assert await projection.caught_up(10)
        assert rows(projection) == expected(10, 10)


async def test_a_log_in_memory_has_its_projection_there_too() -> None:
    async with open_log("memory://", BANK) as log, Projection(log, TOTALS) as projection:
        await pay(log, 30)
        assert await projection.caught_up(10)
        assert rows(projection) == expected(30)


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
    await handle_all(log, stores=stores)
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
    await handle_all(log)

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
