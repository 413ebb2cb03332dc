"""The retention of an SQLite log keeps what a service has not read, while it runs and while it rests."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from eventlib.log.base import Membership
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.topic import Topic
from eventlib.testing.log_contract import LONG_AGO_MS
from eventlib.testing.log_fixture import PATIENCE_S, record

HOUR = Topic("hour", partitions=1, retention=timedelta(hours=1))
JOURNAL = Topic("reads.journal", partitions=1)
FAST = SqliteOptions(heartbeat_s=0.01)


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = await SqliteLog.open(tmp_path / "log.db", options=FAST)
    await log.create_topics([HOUR, JOURNAL])
    for _ in range(10):  # not as a batch: that is dropped as one
        await log.append([record("hour", b"old").replace(timestamp_ms=LONG_AGO_MS)])
    yield log
    await log.close()


async def service_at(log: SqliteLog, offset: int, *, holds: bool = True) -> Membership:
    """Join as a service that has read so far, and wait until the log knows it."""
    member = await log.join("reads", 1)
    member.holds_unread = holds
    member.progress = lambda: {("hour", 0): offset}
    await known(log, str(offset) if holds else None)
    return member


async def known(log: SqliteLog, value: str | None) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while _there(log) != value:
            await asyncio.sleep(0.01)


def _there(log: SqliteLog) -> str | None:
    with closing(sqlite3.connect(log.url.removeprefix("sqlite:///"))) as connection:
        row = connection.execute("SELECT value FROM meta WHERE name LIKE 'unread/reads/%'").fetchone()
    return row[0] if row else None


async def oldest(log: SqliteLog) -> int:
    """Return the oldest record that retention keeps now."""
    await log.compact()
    return await log.start("hour", 0)


async def test_what_a_service_has_not_read_is_kept(log: SqliteLog) -> None:
    member = await service_at(log, 4)
    assert await oldest(log) == 4
    member.progress = lambda: {("hour", 0): 7}
    await known(log, "7")
    assert await oldest(log) == 7


async def test_it_is_kept_while_the_service_rests_too(log: SqliteLog, tmp_path: Path) -> None:
    await (await service_at(log, 4)).leave()
    await log.close()
    again = await SqliteLog.open(tmp_path / "log.db", options=FAST)
    assert await oldest(again) == 4
    await again.close()


async def test_a_service_that_is_told_so_lets_it_be_dropped(log: SqliteLog) -> None:
    await (await service_at(log, 4)).leave()
    await service_at(log, 4, holds=False)
    assert await oldest(log) == 10


async def test_a_service_whose_journal_is_gone_holds_nothing(log: SqliteLog) -> None:
    await (await service_at(log, 4)).leave()
    await log.delete_topics([JOURNAL.name])
    assert await oldest(log) == 10
