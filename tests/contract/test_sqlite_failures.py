"""What an SQLite log does when its disk or its file fails: a sentence for each, and nothing half-written."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from eventlib.errors import (
    EventlibError,
    LogCorrupt,
    LogFull,
    LogReadOnly,
    LogUnavailable,
    LogVersionMismatch,
    RetryableError,
    TerminalError,
)
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from tests.commands import said
from tests.contract.places import read_only, tiny_file_system

PATIENCE_S = 20.0
TOPICS = [Topic("a", partitions=1), Topic("b", partitions=1)]


def record(topic: str, value: bytes) -> Record:
    return Record(topic, 0, -1, 1, b"k", value)


async def opened(place: Path, options: SqliteOptions | None = None) -> SqliteLog:
    log = await SqliteLog.open(place, options=options)
    await log.create_topics(TOPICS)
    return log


async def fill(log: SqliteLog) -> int:
    """Append pairs until the log is full, and return how many were acknowledged."""
    appended, said = 0, ""
    while not said:
        try:
            await log.append([record("a", b"x" * 2_000), record("b", b"x" * 2_000)])
            appended += 1
        except LogFull as error:
            said = str(error)
    assert "no space" in said
    return appended


async def counts(log: SqliteLog) -> list[int]:
    return [len(await log.read(topic.name, 0, 0, 100_000)) for topic in TOPICS]


async def test_a_log_that_is_never_free_is_unavailable_and_the_loop_goes_on(tmp_path: Path) -> None:
    log = await opened(tmp_path / "log.db", SqliteOptions(busy_s=0.5))
    other = connect(tmp_path / "log.db")
    other.execute("BEGIN IMMEDIATE")
    append, seize = asyncio.create_task(log.append([record("a", b"no")])), asyncio.create_task(log.seize("s", 0))
    ticks = 0
    async with asyncio.timeout(PATIENCE_S):
        while not (append.done() and seize.done()):
            await asyncio.sleep(0.001)
            ticks += 1
    for task in (append, seize):
        with pytest.raises(LogUnavailable, match="another process"):
            await task
    assert ticks > 50
    other.execute("ROLLBACK")
    await log.append([record("a", b"yes")])
    assert await counts(log) == [1, 0]
    other.close()
    await log.close()


async def test_a_full_disk_refuses_whole_appends_and_the_log_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with tiny_file_system(tmp_path / "tiny", "3m") as place:
        ballast = place / "ballast"
        ballast.write_bytes(b"x" * 1_000_000)
        log = await opened(place / "log.db")
        appended = await fill(log)
        assert appended > 10
        assert await counts(log) == [appended, appended]
        with pytest.raises(LogFull):
            await log.append([record("a", b"x" * 100_000)])
        ballast.unlink()
        for _ in range(20):
            await log.append([record("a", b"again"), record("b", b"again")])
        assert await counts(log) == [appended + 20, appended + 20]
        await log.close()
        log = await opened(place / "log.db")
        assert await counts(log) == [appended + 20, appended + 20]
        await log.close()


async def test_a_log_does_not_grow_over_its_largest_size(tmp_path: Path) -> None:
    # Also where nothing can be mounted: to SQLite it is a full disk.
    log = await opened(tmp_path / "log.db", SqliteOptions(max_bytes=500_000))
    appended = await fill(log)
    assert await counts(log) == [appended, appended]
    await log.append([record("a", b"small")])
    await log.close()
    log = await opened(tmp_path / "log.db")
    await log.append([record("a", b"again"), record("b", b"x" * 100_000)])
    assert await counts(log) == [appended + 2, appended + 1]
    await log.close()


async def test_a_full_disk_fails_the_whole_group_and_no_offset_is_lost_or_given_twice(tmp_path: Path) -> None:
    log = await opened(tmp_path / "log.db", SqliteOptions(max_bytes=500_000))
    appended = await fill(log)
    end = await log.end("a", 0)
    assert end == appended
    assert await log.append([record("a", b"small")]) == [end]
    await log.close()


@pytest.fixture
async def place(tmp_path: Path) -> Path:
    """Where there is a log of one record, in a directory of its own."""
    log = await opened(tmp_path / "there" / "log.db")
    await log.append([record("a", b"1")])
    await log.close()
    return tmp_path / "there" / "log.db"


async def test_a_read_only_file_can_be_read(place: Path) -> None:
    with read_only(place):
        log = await opened(place)
        assert await counts(log) == [1, 0]
        for write in (log.append([record("a", b"2")]), log.seize("s", 0), log.create_topics([Topic("new")])):
            with pytest.raises(LogReadOnly, match="write access"):
                await write
        assert await counts(log) == [1, 0]
        await log.close()


async def test_a_read_only_directory_is_refused(place: Path) -> None:
    with read_only(place.parent):
        for name in ("new.db", "below/new.db"):
            with pytest.raises(LogReadOnly, match="write access"):
                await opened(place.with_name("x").parent / name)
    log = await opened(place)
    assert await counts(log) == [1, 0]
    await log.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="this user may mount nothing")
async def test_a_log_on_a_read_only_mount_is_read(place: Path) -> None:
    with read_only(place.parent):
        assert "a " in said("topics", "--log", f"sqlite:///{place}")
        log = await opened(place)
        assert await counts(log) == [1, 0]
        with pytest.raises(LogReadOnly, match="write access"):
            await log.append([record("a", b"2")])
        await log.close()
    place.with_name("log.db-wal").write_bytes(b"what a killed process has left")
    with read_only(place.parent), pytest.raises(LogReadOnly, match=r"copy log\.db and log\.db-wal together"):
        await opened(place)


async def test_a_directory_or_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file", encoding="utf-8")
    for place in (tmp_path, tmp_path / "file" / "log.db"):
        with pytest.raises(LogReadOnly):
            await SqliteLog.open(place)


@pytest.mark.parametrize(
    "content", [b"not a log\n" * 1_000, bytes(10_000), b"\x1f\x8b", b"SQLite format 3\x00" + b"?" * 9_000]
)
async def test_a_file_that_is_no_log_is_refused(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "log.db"
    place.write_bytes(content)
    with pytest.raises(LogCorrupt, match=r"log\.db"):
        await SqliteLog.open(place)
    assert place.read_bytes() == content


@pytest.mark.parametrize(
    ("is_a_log", "statement", "error", "sentence"),
    [
        (False, "CREATE TABLE theirs (x)", LogCorrupt, "another path"),
        (True, "PRAGMA user_version=99", LogVersionMismatch, "99.*upgrade"),
        (True, "DROP TABLE owners", LogCorrupt, "owners"),
    ],
    ids=["somebody else's", "a newer version", "a lost table"],
)
async def test_a_database_that_is_no_log_of_this_version_is_refused_and_left_alone(
    tmp_path: Path, is_a_log: bool, statement: str, error: type[EventlibError], sentence: str
) -> None:
    place = tmp_path / "log.db"
    if is_a_log:
        await write_some(place)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(statement)
    before = place.read_bytes()
    with pytest.raises(error, match=sentence):
        await SqliteLog.open(place)
    assert place.read_bytes() == before


async def write_some(place: Path) -> None:
    log = await opened(place)
    for number in range(200):
        await log.append([record("a", b"%d" % number + b"x" * 500), record("b", b"%d" % number)])
    await log.close()


@pytest.mark.parametrize("keep", [1, 99, 4_096, 0.3, 0.9, -1])
async def test_a_truncated_file_is_refused(tmp_path: Path, keep: float) -> None:
    place = tmp_path / "log.db"
    await write_some(place)
    size = os.path.getsize(place)  # noqa: ASYNC240, PTH202  nothing else runs in a test's loop
    with place.open("r+b") as file:
        file.truncate(int(keep * size) if 0 < keep < 1 else int(keep) % size)
    with pytest.raises(LogCorrupt, match=r"log\.db"):
        await SqliteLog.open(place)


async def test_a_file_cut_to_nothing_beside_its_journal_is_refused(tmp_path: Path) -> None:
    place, copy = tmp_path / "log.db", tmp_path / "copy.db"
    log = await opened(place)
    await log.append([record("a", b"1")])
    copy.touch()
    shutil.copy(tmp_path / "log.db-wal", tmp_path / "copy.db-wal")
    await log.close()
    with pytest.raises(LogCorrupt, match="journal"):
        await SqliteLog.open(copy)
    assert (tmp_path / "copy.db-wal").stat().st_size > 0


@pytest.mark.parametrize("seed", range(12))
async def test_damaged_pages_are_noticed_or_harmless(tmp_path: Path, seed: int) -> None:
    # Whatever bytes are hit: what is said is one of ours, and a record that is given is one that was written.
    place, random = tmp_path / "log.db", Random(seed)
    await write_some(place)
    size = os.path.getsize(place)  # noqa: ASYNC240, PTH202  nothing else runs in a test's loop
    with place.open("r+b") as file:
        for _ in range(6):
            file.seek(random.randrange(100, size - 300))
            file.write(random.randbytes(300))
    said = [outcome async for outcome in whatever_happens(place)]
    assert not [outcome for outcome in said if isinstance(outcome, RetryableError)]
    for outcome in said:
        assert isinstance(outcome, TerminalError)


async def whatever_happens(place: Path) -> AsyncIterator[EventlibError]:
    """Use a log, and yield the errors that it raises on purpose; another error fails the test."""
    try:
        log = await SqliteLog.open(place)
    except EventlibError as error:
        yield error
        return
    for ask in (
        log.read("b", 0, 0, 1_000),
        log.append([record("a", b"more"), record("b", b"more")]),
        log.offset_at("a", 0, 1),
        log.seize("s", 0),
        log.compact(),
    ):
        try:
            await ask
        except EventlibError as error:
            yield error
    await log.close()
