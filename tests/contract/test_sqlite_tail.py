"""A log that lost acknowledged records from its end says so, refuses to be written, and goes on when that was accepted."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eventlib.cli import run
from eventlib.errors import LogCorrupt, TailLost
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.high_water import HighWaterMark, losses, mark_beside, mark_path
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.doctor.sqlite import examine_file
from tests.contract.processes import TOPICS, line_of, process

ORDERS = Topic("orders", partitions=2)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def checkpoint(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint")


async def appended(log: SqliteLog, count: int) -> None:
    for number in range(count):
        await log.append([Record("orders", number % 2, -1, 1, b"k", b"%d" % number)])


async def ends(log: SqliteLog, topics: list[Topic]) -> int:
    return sum([await log.end(topic.name, p) for topic in topics for p in range(topic.partitions)])


def crashed_copy(path: Path, to: Path) -> Path:
    """Return a copy of a log as a crash leaves it: with the journal that a last close would have taken in."""
    to.mkdir()
    for each in path.parent.glob(f"{path.name}*"):
        if each.is_file() and not each.name.endswith("-shm"):
            shutil.copy(each, to / each.name)
    return to / path.name


@pytest.mark.parametrize("what", ["deleted", "damaged"])
async def test_a_write_ahead_log_that_is_lost_after_a_kill_is_told_and_nothing_is_written(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "log.db"
    with process("append_some", place, "20+60") as writer:
        assert line_of(writer) == "done"
        writer.kill()
        writer.wait()
    journal = beside(place, "-wal")
    if what == "deleted":
        journal.unlink()
        beside(place, "-shm").unlink()
    else:
        content = bytearray(journal.read_bytes())
        content[len(content) // 3] ^= 1
        journal.write_bytes(content)
    log = await SqliteLog.open(place)
    assert "records that were acknowledged" in caplog.text
    there = await ends(log, TOPICS)
    mark = mark_beside(place)
    assert mark is not None
    assert mark.offsets > there > 0
    assert await log.read("a", 0, 0, 10) != []
    for write in (log.append([Record("a", 0, -1, 1, b"k", b"more")]), log.seize("s", 0)):
        with pytest.raises(TailLost, match=f"lacks {mark.offsets - there:,} record.*eventlib restore.*--accept-loss"):
            await write
    await log.close()
    found = [each for each in examine_file(place) if each.verdict == "error"]
    assert [each.check for each in found] == ["tail"]
    assert f"{mark.offsets - there:,} records" in found[0].what


async def test_a_log_that_lost_everything_is_not_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    with process("append", place, "one") as writer:
        line_of(writer)
        writer.kill()
        writer.wait()
    for suffix in ("-wal", "-shm"):
        beside(place, suffix).unlink()
    with pytest.raises(TailLost, match=r"start without them.*delete log\.db-hwm"):
        await SqliteLog.open(place)
    mark_path(place).unlink()
    await (await SqliteLog.open(place)).close()


async def test_an_older_copy_in_the_place_of_a_log_is_told(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    log = await SqliteLog.open(place)
    await log.create_topics([ORDERS])
    await appended(log, 5)
    checkpoint(place)
    shutil.copy(place, tmp_path / "copy.db")
    await appended(log, 7)
    await log.close()
    shutil.copy(tmp_path / "copy.db", place)
    log = await SqliteLog.open(place)
    with pytest.raises(TailLost, match="lacks 7 records"):
        await appended(log, 1)
    await log.close()
    # The same copy where no mark is says nothing, and takes what comes.
    other = await SqliteLog.open(tmp_path / "copy.db")
    await appended(other, 1)
    await other.close()


async def test_a_loss_that_is_accepted_is_recorded_and_no_cache_of_what_was_lost_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "log.db"
    log = await SqliteLog.open(place)
    await log.create_topics([ORDERS])
    await appended(log, 5)
    checkpoint(place)
    cut = crashed_copy(place, tmp_path / "cut")
    await appended(log, 3)
    mark_path(cut).write_bytes(mark_path(place).read_bytes())
    beside(cut, "-wal").unlink(missing_ok=True)
    former = log.log_id
    await log.close()

    still_open = await SqliteLog.open(cut)
    assert run(["repair", "--accept-loss", "--reason", "the disk died", "--log", f"sqlite:///{cut}"]) == 0
    assert capsys.readouterr().out.startswith("3 records that had been acknowledged are given up")
    with closing(connect(cut)) as connection:
        (loss,) = losses(connection)
    assert (loss.records, loss.former_log_id) == (3, former)
    again = await SqliteLog.open(cut)
    assert again.log_id != former
    await appended(again, 1)
    # Who has it open still knows the records of another log: it ends, and does not write.
    with pytest.raises(LogCorrupt, match="restart it"):
        await appended(still_open, 1)
    await still_open.close()
    await again.close()
    told = [each for each in examine_file(cut) if each.check == "tail"]
    assert [each.verdict for each in told] == ["warning"]
    assert "3 records" in told[0].what
    assert "the disk died" in told[0].what


async def test_processes_that_write_in_turn_do_not_take_each_others_records_for_lost(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    logs = [await SqliteLog.open(place) for _ in range(3)]
    await logs[0].create_topics([ORDERS])
    for _ in range(30):
        for log in logs:
            await appended(log, 3)
    mark = mark_beside(place)
    assert mark is not None
    assert mark.offsets == await ends(logs[0], [ORDERS]) == 270
    for log in logs:
        await log.close()


async def test_deleted_topics_and_compaction_are_no_loss(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    log = await SqliteLog.open(place)
    await log.create_topics([ORDERS, Topic("states", partitions=1, compacted=True)])
    await appended(log, 6)
    await log.append([Record("states", 0, -1, 1, b"k", b"%d" % number) for number in range(9)])
    await log.compact()
    await log.delete_topics(["orders"])
    await log.close()
    log = await SqliteLog.open(place)
    await log.create_topics([ORDERS])
    await appended(log, 1)
    await log.close()


async def test_a_damaged_mark_and_another_logs_say_nothing(tmp_path: Path) -> None:
    place, other = tmp_path / "log.db", tmp_path / "other.db"
    for path, count in ((place, 4), (other, 2)):
        log = await SqliteLog.open(path)
        await log.create_topics([ORDERS])
        await appended(log, count)
        await log.close()
    shutil.copy(mark_path(place), mark_path(other))
    log = await SqliteLog.open(other)
    await appended(log, 1)
    await log.close()
    assert mark_beside(other) != mark_beside(place)
    content = bytearray(mark_path(place).read_bytes())
    for slot in (8, 40):
        content[slot] ^= 0x40  # it would claim more than was ever written
    mark_path(place).write_bytes(content)
    log = await SqliteLog.open(place)
    await appended(log, 1)
    await log.close()


async def test_where_no_mark_can_be_kept_the_log_works_and_the_doctor_says_so(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    mark_path(place).mkdir()  # stands for a file system that cannot map a file
    log = await SqliteLog.open(place)
    await log.create_topics([ORDERS])
    await appended(log, 3)
    await log.close()
    told = [each for each in examine_file(place) if each.check == "tail"]
    assert [each.verdict for each in told] == ["warning"]


def test_one_slot_is_whole_whatever_tears_the_other(tmp_path: Path) -> None:
    mark = HighWaterMark(tmp_path / "log.db", "id")
    assert mark.missing(0) == 0
    for number in range(1, 9):
        mark.raise_to(2 * number)
    mark.raise_to(3)
    mark.close()
    assert mark_path(tmp_path / "log.db").stat().st_size == 64
    whole = mark_path(tmp_path / "log.db").read_bytes()
    found = set[int]()
    for slot in (0, 32):
        mark_path(tmp_path / "log.db").write_bytes(whole[: slot + 8] + b"\xff" * 4 + whole[slot + 12 :])
        torn = mark_beside(tmp_path / "log.db")
        assert torn is not None
        found.add(torn.offsets)
    assert found == {14, 16}
