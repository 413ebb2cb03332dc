"""A log's file that was removed, moved or replaced while open: no append counts as durable that nobody could find again."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from eventlib.errors import LogCorrupt, LogReplaced
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.topic import Topic
from eventlib.testing.log_fixture import record

FILE, JOURNAL, BACKUP = "log.db", "log.db-wal", "backup.db"


def _moved_over(place: Path) -> None:
    (place / BACKUP).replace(place / FILE)


def _moved_away(place: Path) -> None:
    (place / FILE).rename(place / "elsewhere.db")


def _removed(place: Path) -> None:
    (place / FILE).unlink()


def _copied_over_without_its_journal(place: Path) -> None:
    shutil.copyfile(place / BACKUP, place / FILE)
    (place / JOURNAL).unlink()


def _copied_over(place: Path) -> None:
    shutil.copyfile(place / BACKUP, place / FILE)


async def _with_a_backup(place: Path) -> SqliteLog:
    other = await SqliteLog.open(place / BACKUP)
    await other.create_topics([Topic("a", partitions=1)])
    await other.close()
    log = await SqliteLog.open(place / FILE)
    await log.create_topics([Topic("a", partitions=1)])
    await log.append([record("a", b"1")])
    return log


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_moved_over, f"{FILE} was replaced"),
        (_moved_away, f"{FILE} was removed or moved"),
        (_removed, f"{FILE} was removed or moved"),
        (_copied_over, f"{FILE} was replaced"),
        (_copied_over_without_its_journal, f"{JOURNAL} was removed or moved"),
    ],
)
async def test_an_append_into_a_file_that_lost_its_name_fails(
    tmp_path: Path, change: Callable[[Path], None], named: str
) -> None:
    log = await _with_a_backup(tmp_path)
    change(tmp_path)
    for _ in range(2):
        with pytest.raises(LogReplaced, match=named):
            await log.append([record("a", b"2")])
    with pytest.raises(LogReplaced, match=named):
        await log.create_topics([Topic("later", partitions=1)])
    await log.close()


@pytest.mark.parametrize("change", [_moved_over, _moved_away, _removed])
async def test_a_reader_that_waits_is_told(tmp_path: Path, change: Callable[[Path], None]) -> None:
    log = await _with_a_backup(tmp_path)
    reader = log.reader({("a", 0): 1})
    change(tmp_path)
    with pytest.raises(LogReplaced, match=FILE):
        await reader.poll(1)
    await log.close()


async def test_a_log_that_was_moved_without_its_journal_says_so_when_it_is_opened(tmp_path: Path) -> None:
    log = await _with_a_backup(tmp_path)
    _moved_away(tmp_path)
    with pytest.raises(LogCorrupt, match=r"there is no such file, but its journal log\.db-wal is there"):
        await SqliteLog.open(tmp_path / FILE)
    await log.close()


async def test_a_log_whose_file_changes_by_its_own_checkpoints_goes_on(tmp_path: Path) -> None:
    log = await _with_a_backup(tmp_path)
    before = (tmp_path / FILE).stat().st_mtime_ns
    for _ in range(3):
        await log.append([record("a", b"2" * 100_000) for _ in range(60)])
        with closing(sqlite3.connect(tmp_path / FILE)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    await log.append([record("a", b"3")])
    assert (tmp_path / FILE).stat().st_mtime_ns != before
    assert len(await log.read("a", 0, 0, 1_000)) == 1 + 180 + 1
    await log.close()
