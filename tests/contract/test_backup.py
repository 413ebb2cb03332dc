"""Backups of a log: whole or not there, whatever happens meanwhile, and put back without losing anything in silence."""

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from datetime import timedelta
from pathlib import Path

import pytest

from eventlib.cli import run
from eventlib.errors import LogCorrupt, LogFull, LogUnavailable, WiringError
from eventlib.log.record import Record
from eventlib.log.sqlite.connection import connect
from eventlib.log.sqlite.high_water import losses, mark_path
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.topic import Topic
from eventlib.operations.backup.manifest import Backup, chain, manifest_of
from eventlib.operations.backup.restore import restore
from eventlib.operations.backup.write import back_up
from eventlib.state.sqlite import SqliteStores
from tests.contract.places import tiny_file_system
from tests.contract.processes import TOPICS
from tests.contract.test_sqlite_processes import line_of, process
from tests.in_rows import in_rows

ORDERS = Topic("orders", partitions=2)
STATES = Topic("states", partitions=1, compacted=True)
RECENT = Topic("recent", partitions=1, retention=timedelta(milliseconds=50))
_TABLES = ("meta", "topics", "partitions", "records", "milestones", "owners")


def made(log: Path, to: Path, *, full: bool = False) -> Backup:
    return back_up(log, f"sqlite:///{log}", to, full=full, progress=lambda *_: None)


def numbered(topic: str, count: int, first: int = 0, partitions: int = 1) -> list[Record]:
    return [
        Record(topic, n % partitions, -1, n, b"key-%d" % (n % 5), b"%d" % n, headers=(("n", b"%d" % n),))
        for n in range(first, first + count)
    ]


def incompressible(records: Sequence[Record]) -> list[Record]:
    draw = random.Random(3)
    return [each.replace(value=draw.randbytes(80)) for each in records]


async def opened(path: Path, *topics: Topic, now: int = 1_000) -> SqliteLog:
    log = await SqliteLog.open(path, options=SqliteOptions(compact_floor=5, clock=lambda: now))
    await log.create_topics(topics or [ORDERS])
    return log


def content(path: Path) -> Mapping[str, list[tuple[object, ...]]]:
    with closing(connect(path)) as connection:
        return {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in _TABLES}  # noqa: S608  names of this file


def beside(path: Path) -> list[str]:
    return [each.name for each in path.parent.glob(f"{path.name}*")]


def cleared(path: Path) -> None:
    """Delete a log, and all files beside it."""
    for each in path.parent.glob(f"{path.name}*"):
        if each.is_file():
            each.unlink()


async def test_a_log_is_backed_up_while_others_write_and_nothing_acknowledged_before_is_missing(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    with process("append", place, "one") as writer:
        before = [line_of(writer) for _ in range(50)]
        backup = made(place, tmp_path / "backup.db")
        after = [line_of(writer) for _ in range(50)]  # it is not held up
        writer.kill()
    assert len(before) == len(after) == 50
    assert backup.manifest.kind == "full"
    assert backup.manifest.damaged == ()
    restored = tmp_path / "elsewhere" / "log.db"
    done = await restore(tmp_path / "backup.db", restored, None, None)
    assert not done.is_another
    log = await SqliteLog.open(restored)
    found = {
        (record.value or b"").decode().rpartition("/")[0]
        for topic in TOPICS
        for partition in range(topic.partitions)
        for record in await log.read(topic.name, partition, 0, 100_000)
    }
    assert found >= {*before}
    assert await log.append([Record("a", 0, -1, 1, b"k", b"goes on")])
    await log.close()


async def test_increments_on_top_of_each_other_are_the_log_as_it_was(tmp_path: Path) -> None:
    place, backups = tmp_path / "log.db", tmp_path / "backups"
    backups.mkdir()
    log = await opened(place, ORDERS, STATES, RECENT)
    orders = incompressible(numbered("orders", 5_000, partitions=2))
    await log.append([*orders, *numbered("states", 50), *numbered("recent", 40)])
    kinds, draw = list[str](), random.Random(7)
    for turn in range(6):
        await log.append(numbered("orders", draw.randrange(40), 10_000 * turn, partitions=2))
        if turn in {1, 4}:  # compaction and retention drop what a backup has
            await log.append([*numbered("states", 20, 100 * turn), *numbered("recent", 5, 980)])
            await log.compact()
        if turn == 2:
            await log.create_topics([Topic("new", partitions=3)])
            await log.append(numbered("new", 9, partitions=3))
            await log.delete_topics(["recent"])
            await log.seize("service", 0)
        if turn == 3:
            await log.create_topics([RECENT])
            await log.append(numbered("recent", 3, 990))
        kinds.append(made(place, backups).manifest.kind)
        cleared(tmp_path / "again.db")
        await restore(backups, tmp_path / "again.db", None, None)
        assert content(tmp_path / "again.db") == content(place)
    await log.close()
    assert kinds == ["full", *["increment"] * 5]
    assert sum(each.file.stat().st_size for each in chain(backups)[1:]) < chain(backups)[0].manifest.bytes
    assert made(place, backups, full=True).manifest.kind == "full"
    assert len(chain(backups)) == 1


async def test_an_increment_on_a_batch_that_was_packed_across_its_beginning_is_the_log_as_it_was(
    tmp_path: Path,
) -> None:
    place, backups = tmp_path / "log.db", tmp_path / "backups"
    backups.mkdir()
    log = await opened(place)
    for turn in range(2):
        for each in numbered("orders", 20, 20 * turn):
            await log.append([each])
        if turn:
            await log.pack()
        kind = made(place, backups).manifest.kind
    await restore(backups, tmp_path / "again.db", None, None)
    assert kind == "increment"
    assert content(tmp_path / "again.db") == content(place)
    await log.close()


async def test_an_increment_does_not_go_on_from_another_log_or_one_that_was_set_back(tmp_path: Path) -> None:
    place, backups = tmp_path / "log.db", tmp_path / "backups"
    backups.mkdir()
    for count in (9, 3):
        cleared(place)
        log = await opened(place)
        await log.append(numbered("orders", count))
        await log.close()
        assert made(place, backups).manifest.kind == "full"


@pytest.mark.parametrize("what", ["file", "manifest", "cut", "increment gone", "another increment"])
async def test_a_backup_that_has_changed_is_refused_and_nothing_is_touched(tmp_path: Path, what: str) -> None:
    place, backups, target = tmp_path / "log.db", tmp_path / "backups", tmp_path / "target.db"
    backups.mkdir()
    log = await opened(place)
    for turn in range(3):
        await log.append(numbered("orders", 2_000 if not turn else 9, 10_000 * turn))
        made(place, backups)
    await log.close()
    full, middle, _ = chain(backups)
    match what:
        case "file":
            data = bytearray(full.file.read_bytes())
            data[len(data) // 2] ^= 8
            full.file.write_bytes(data)
        case "manifest":
            full.path.write_text(full.path.read_text().replace('"kind"', '"kin"'))
        case "cut":
            full.file.write_bytes(full.file.read_bytes()[:-4096])
        case "increment gone":
            middle.path.unlink()
        case _:
            middle.path.write_text(middle.path.read_text() + " ")
    await (await opened(target)).close()
    before = content(target)
    with pytest.raises(LogCorrupt, match="use another"):
        await restore(backups, target, None, "try")
    assert content(target) == before
    assert {each for each in beside(target) if ".re" in each} == set()


async def test_what_is_damaged_in_the_log_is_named_in_its_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "log.db"
    log = await opened(place)
    await log.append(numbered("orders", 20))
    await log.close()
    with closing(sqlite3.connect(in_rows(place))) as connection:
        connection.execute("UPDATE records SET value = x'00ff' WHERE recorded_at = 12")
        connection.execute("DELETE FROM records WHERE recorded_at = 17")
        connection.commit()
    assert run(["backup", "--log", f"sqlite:///{place}", "--to", str(tmp_path / "backup.db")]) == 1
    told = capsys.readouterr().out
    assert "orders/0/12: does not match its checksum" in told
    assert "orders/0/17: no record" in told
    done = await restore(tmp_path / "backup.db", tmp_path / "again.db", None, None)
    assert done.records == 19


def started_backup(place: Path, backups: Path) -> "subprocess.Popen[str]":
    """Start a backup that tells where it is, and waits for a line there each time."""
    script = (
        "import sys; from pathlib import Path; from eventlib.operations.backup.write import back_up\n"
        "def told(at, of): print(at, flush=True); sys.stdin.readline()\n"
        "import eventlib.operations.backup.manifest as m; settle = m.settle\n"
        "def settled(path): print(path, flush=True); sys.stdin.readline(); settle(path)\n"
        "m.settle = settled\n"
        "back_up(Path(sys.argv[1]), 'sqlite:', Path(sys.argv[2]), full=True, progress=told)\n"
    )
    command = [sys.executable, "-c", script, str(place), str(backups)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("waits", [0, 3, 4])  # while it copies, before it has a manifest, and after
async def test_a_backup_killed_at_any_moment_is_not_there_or_whole(tmp_path: Path, waits: int) -> None:
    place, backups = tmp_path / "log.db", tmp_path / "backups"
    backups.mkdir()
    log = await opened(place)
    await log.append(numbered("orders", 5_000))
    await log.close()
    with started_backup(place, backups) as running:
        assert running.stdin is not None
        for _ in range(waits):
            assert line_of(running)
            running.stdin.write("\n")
            running.stdin.flush()
        assert line_of(running)
        running.kill()
    assert len([*backups.iterdir()]) == {0: 1, 3: 2, 4: 2}[waits]
    if waits == 4:
        assert (await restore(backups, tmp_path / "again.db", None, None)).records == 5_000
    else:
        with pytest.raises(WiringError, match="there is no backup"):
            await restore(backups, tmp_path / "again.db", None, None)
    await (await SqliteLog.open(place)).close()
    made(place, backups, full=True)
    assert (await restore(backups, tmp_path / "next.db", None, None)).records == 5_000
    assert {each.suffix for each in backups.iterdir()} == {".db", ".json"}


async def test_a_full_disk_leaves_no_backup_and_says_so(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    log = await opened(place)
    await log.append(incompressible(numbered("orders", 20_000)))
    await log.close()
    with tiny_file_system(tmp_path / "tiny", "1m") as tiny:
        with pytest.raises(LogFull, match="no space is left"):
            made(place, tiny / "backup.db")
        assert [*tiny.iterdir()] == []
        backup = made(place, tmp_path / "backup.db")
        with pytest.raises(LogFull, match="no space is left"):
            await restore(backup.file, tiny / "log.db", None, None)
        assert [*tiny.iterdir()] == []


async def lost(tmp_path: Path) -> tuple[Path, Path, str]:
    """Return a log that went on after its backup, that backup, and the log's id."""
    place = tmp_path / "log.db"
    log = await opened(place, ORDERS, Topic("bank.changelog", partitions=1, compacted=True))
    await log.append([*numbered("orders", 10), *numbered("bank.changelog", 4)])
    made(place, tmp_path / "backup.db")
    await log.append([*numbered("orders", 3, 10), *numbered("bank.changelog", 2, 4)])
    store = (stores := SqliteStores(Path(f"{place}.state"))).open("bank", 0, 1, log.log_id)
    store.write({"key": b"1"}, 6)
    stores.close()
    await log.close()
    return place, tmp_path / "backup.db", log.log_id


async def test_a_log_that_has_more_is_replaced_only_by_force_and_what_is_lost_is_named(tmp_path: Path) -> None:
    place, backup, former = await lost(tmp_path)
    before = content(place)
    with pytest.raises(WiringError, match=r"5 records more.*orders/0 from 10 to 12.*--force"):
        await restore(backup, place, None, None)
    assert content(place) == before
    done = await restore(backup, place, None, "ada: the disk is going")
    assert done.replaced is not None
    assert content(done.replaced) == before
    assert [(each.topic, each.first, each.end) for each in done.testimony.behind] == [
        ("bank.changelog", 4, 6),
        ("orders", 10, 13),
    ]
    log = await SqliteLog.open(place)
    assert log.log_id == done.log_id != former
    assert await log.append(numbered("orders", 1)) == [10]
    await log.close()
    with closing(connect(place)) as connection:
        assert [(each.records, each.reason) for each in losses(connection)] == [(5, "ada: the disk is going")]
    stores = SqliteStores(Path(f"{place}.state"))  # of the log that was: nothing of it is used
    store = stores.open("bank", 0, 1, log.log_id)
    assert (store.checkpoint, store.get("key")) == (0, None)
    stores.close()


@pytest.mark.parametrize("witness", ["mark", "stores", "live", "none"])
async def test_each_witness_of_what_is_lost_is_heard(tmp_path: Path, witness: str) -> None:
    place, backup, former = await lost(tmp_path)
    live = None
    if witness == "live":
        live = f"sqlite:///{tmp_path}/moved.db"
        place.rename(tmp_path / "moved.db")
    mark = mark_path(place).read_bytes()
    cleared(place)
    if witness == "mark":
        mark_path(place).write_bytes(mark)
    if witness != "stores":
        cleared(Path(f"{place}.state") / "bank.db")
    done = await restore(backup, place, live, None)
    assert done.is_another == (witness != "none")
    assert done.testimony.missing == {"mark": 5, "stores": 2, "live": 5, "none": 0}[witness]
    if witness == "live":
        assert {each.topic: each.keys for each in done.testimony.behind}["orders"] == ("key-0", "key-1", "key-2")
    log = await SqliteLog.open(place)
    assert (log.log_id == former) == (witness == "none")
    await log.append(numbered("orders", 1))
    await log.close()


async def test_a_restore_of_all_that_was_acknowledged_keeps_the_id_so_that_stores_go_on(tmp_path: Path) -> None:
    place = tmp_path / "log.db"
    log = await opened(place)
    await log.append(numbered("orders", 10))
    await log.close()
    backup = made(place, tmp_path / "backup.db")
    place.write_bytes(place.read_bytes()[:4096])  # the disk has lost most of it
    with pytest.raises(WiringError, match="cannot determine whether"):
        await restore(backup.file, place, None, None)
    done = await restore(backup.file, place, None, "ada: it is damaged")
    assert not done.is_another
    assert done.log_id == log.log_id
    again = await SqliteLog.open(place)
    assert await again.append(numbered("orders", 1)) == [10]
    await again.close()


async def test_a_log_that_is_open_or_another_one_is_not_replaced(tmp_path: Path) -> None:
    place, backup, _ = await lost(tmp_path)
    with process("append", tmp_path / "other.db", "one") as writer:
        line_of(writer)
        with pytest.raises(LogUnavailable, match="stop them first"):
            await restore(backup, tmp_path / "other.db", None, "force")
    with pytest.raises(WiringError, match="is another log"):
        await restore(backup, tmp_path / "other.db", None, None)
    assert place.exists()


@pytest.mark.parametrize("step", range(4))
async def test_a_restore_that_is_cut_short_never_leaves_a_log_that_looks_whole(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, backup, former = await lost(tmp_path)
    steps, rename = 0, Path.rename

    def cut_short(source: Path, target: Path) -> Path:
        nonlocal steps
        steps += 1
        if steps > step:
            raise RuntimeError
        return rename(source, target)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError) if step < 3 else nullcontext():
        patch.setattr(Path, "rename", cut_short)
        await restore(backup, place, None, "force")
    if step in {1, 2}:
        with pytest.raises(LogCorrupt, match="is empty"):
            await SqliteLog.open(place)
    await restore(backup, place, None, "force")
    log = await SqliteLog.open(place)
    assert log.log_id != former
    await log.append(numbered("orders", 1))
    await log.close()


def test_a_log_on_kafka_is_told_what_to_use_instead(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["backup", "--log", "kafka://127.0.0.1:1", "--to", str(tmp_path / "b.db")]) == 1
    assert "analytics archive" in (told := capsys.readouterr().err)
    assert "MirrorMaker" in told
    assert "eventlib copy" in told


def test_the_commands_back_up_and_restore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "log.db"

    async def fill() -> None:
        log = await opened(place)
        await log.append(numbered("orders", 10))
        await log.close()

    asyncio.run(fill())
    backups = f"{tmp_path}/backups/"
    for kind in ("all", "since backup 1"):
        assert run(["backup", "--log", f"sqlite:///{place}", "--to", backups]) == 0
        assert f"({kind})" in capsys.readouterr().out
    assert manifest_of(tmp_path / "x.db").name == "x.db.json"
    assert run(["restore", "--from", backups, "--to", f"sqlite:///{tmp_path}/new.db", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["lost_records"], told["is_another"]) == (10, 0, False)
    assert run(["restore", "--from", str(tmp_path), "--to", f"sqlite:///{tmp_path}/new2.db"]) == 1
    assert "there is no backup in" in capsys.readouterr().err
