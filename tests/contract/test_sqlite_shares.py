"""Shares: what is worked out while a transaction is being made is in it as a whole, or nobody ever hears of it."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from eventlib.errors import ContractError, LogFull, LogUnavailable, OwnershipLost
from eventlib.log.base import Batch, Claim, Share
from eventlib.log.memory import MemoryLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.testing.log_fixture import TOPICS, record, values

ANY = Claim("s", 0, 1)  # this log makes one transaction under all claims


class ExternalStates(Share):
    """A share that does what a test says, and remembers what it was told."""

    def __init__(self, write: Callable[[Batch], Awaitable[object]]) -> None:
        self.offsets: object = None
        self.ended: list[Exception | None] = []
        self._write = write

    async def write(self, batch: Batch) -> None:
        assert self.offsets is None, "it is to write once"
        self.offsets = await self._write(batch) or ()

    def committed(self) -> None:
        self.ended.append(None)

    def failed(self, error: Exception) -> None:
        self.ended.append(error)


async def opened(directory: Path, options: SqliteOptions | None = None) -> SqliteLog:
    log = await SqliteLog.open(directory / "log.db", options=options)
    await log.create_topics(TOPICS)
    return log


async def passed(share: ExternalStates, log: SqliteLog) -> None:
    assert log.enlist(share, ANY)
    async with asyncio.timeout(10):
        while not share.ended:
            await asyncio.sleep(0)


async def test_it_has_its_offsets_at_once_and_one_commit_with_what_else_there_is(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    await log.append([record("a", b"0")])
    commits = log.commits

    async def write(batch: Batch) -> list[list[int]]:
        return [await batch.append([record("a", b"2")]), await batch.append([record("b", b"3"), record("a", b"4")])]

    share = ExternalStates(write)
    beside = asyncio.create_task(log.append([record("a", b"1")]))
    await asyncio.sleep(0)
    await passed(share, log)
    assert (share.offsets, share.ended, await beside) == ([[2], [0, 3]], [None], [1])
    assert log.commits == commits + 1
    assert await values(log, "a", 0) == [b"0", b"1", b"2", b"4"]
    await log.close()


async def test_it_knows_of_the_commit_before_any_reader_does(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    reader = log.reader({("a", 0): 0})
    told = list[int]()
    poll = asyncio.create_task(reader.poll(1))
    poll.add_done_callback(lambda _: told.append(len(share.ended)))
    await asyncio.sleep(0.01)
    share = ExternalStates(lambda batch: batch.append([record("a", b"1")]))
    await passed(share, log)
    await poll
    await asyncio.sleep(0)
    assert told == [1]
    await log.close()


async def test_a_claim_that_is_lost_is_refused_at_once_and_costs_the_others_nothing(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    lost = await log.seize("s", 0)
    kept = await log.seize("s", 0)

    async def write(batch: Batch) -> list[int]:
        with pytest.raises(OwnershipLost):
            batch.enter(lost)
        batch.enter(kept)
        with pytest.raises(ContractError):
            await batch.append([record("a", b"no"), record("nowhere", b"no")])
        return await batch.append([record("a", b"kept")])

    async def write_late(batch: Batch) -> None:
        batch.enter(lost)
        await batch.append([record("a", b"zombie")])

    share, zombie = ExternalStates(write), ExternalStates(write_late)
    assert log.enlist(zombie, lost)
    await passed(share, log)
    assert share.ended == [None]
    assert [type(each) for each in zombie.ended] == [OwnershipLost]
    assert await values(log, "a", 0) == [b"kept"]
    await log.close()


async def test_one_that_fails_half_way_leaves_nothing_and_what_was_appended_beside_it_is_there(tmp_path: Path) -> None:
    log = await opened(tmp_path)

    async def half(batch: Batch) -> None:
        await batch.append([record("a", b"half")])
        batch.enter(Claim("s", 0, 99))

    torn, other = ExternalStates(half), ExternalStates(lambda batch: batch.append([record("a", b"other")]))
    before, behind = asyncio.create_task(log.append([record("a", b"1")])), None
    await asyncio.sleep(0)
    assert log.enlist(other, ANY)
    assert log.enlist(torn, ANY)
    behind = asyncio.create_task(log.append([record("a", b"2")]))
    assert (await before, await behind) == ([0], [1])
    assert [type(each) for each in torn.ended] == [OwnershipLost]
    assert [type(each) for each in other.ended] == [LogUnavailable]  # it may try again, with another share
    assert await values(log, "a", 0) == [b"1", b"2"]
    assert await values(log, "b", 0) == []
    await log.close()


async def test_when_something_cannot_be_stored_it_fails_and_the_appends_beside_it_do_not(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    share = ExternalStates(lambda batch: batch.append([record("a", b"1"), record("a", b"2").replace(sequence=2**70)]))
    beside = asyncio.create_task(log.append([record("a", b"2")]))
    await asyncio.sleep(0)
    await passed(share, log)
    assert await beside == [0]
    assert [type(each) for each in share.ended] == [ContractError]
    assert await values(log, "a", 0) == [b"2"]
    await log.close()


async def test_a_mistake_in_it_is_its_own(tmp_path: Path) -> None:
    log = await opened(tmp_path)

    async def wrong(batch: Batch) -> None:
        await batch.append([record("a", b"half")])
        raise RuntimeError("a mistake")

    share, beside = ExternalStates(wrong), asyncio.create_task(log.append([record("a", b"1")]))
    await asyncio.sleep(0)
    await passed(share, log)
    assert [type(each) for each in share.ended] == [RuntimeError]
    assert await beside == [0]
    await log.close()


async def test_a_log_that_is_full_or_closed_says_so(tmp_path: Path) -> None:
    log = await opened(tmp_path, SqliteOptions(max_bytes=300_000))
    share = ExternalStates(lambda batch: batch.append([record("a", b"x" * 90_000) for _ in range(10)]))
    await passed(share, log)
    assert [type(each) for each in share.ended] == [LogFull]
    assert await log.append([record("a", b"small")]) == [0]
    late = ExternalStates(lambda batch: batch.append([record("a", b"late")]))
    assert log.enlist(late, ANY)
    await log.close()
    assert [type(each) for each in late.ended] == [LogUnavailable]


async def test_another_process_sees_all_of_it_or_nothing(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    other = sqlite3.connect(tmp_path / "log.db")
    seen = list[int]()

    async def write(batch: Batch) -> None:
        for i in range(3):
            await batch.append([record("a", b"%d" % i)])
            seen.append(other.execute("SELECT count(*) FROM records").fetchone()[0])

    await passed(ExternalStates(write), log)
    seen.append(other.execute("SELECT count(*) FROM records").fetchone()[0])
    assert seen == [0, 0, 0, 3]
    other.close()
    await log.close()


def test_a_log_may_do_without() -> None:
    assert not MemoryLog().enlist(ExternalStates(lambda batch: batch.append([])), ANY)
