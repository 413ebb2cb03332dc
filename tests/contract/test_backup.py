"""Backups of a log are whole or not there, whatever happens meanwhile."""

import asyncio
import json
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from eventlib.cli import run
from eventlib.errors import LogCorrupt, LogFull, WiringError
from eventlib.log.archive.files import Replaced
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.backup.manifest import chain, manifest_of
from eventlib.operations.backup.restore import restore
from tests import forked
from tests.contract.backed_up import ORDERS, beside, cleared, content, incompressible, made, numbered, opened
from tests.contract.places import tiny_file_system
from tests.contract.processes import TOPICS, line_of, process
from tests.in_rows import change_row, in_rows

STATES = Topic("states", partitions=1, compacted=True)
RECENT = Topic("recent", partitions=1, retention=timedelta(milliseconds=50))


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


FOREIGN = ["../other.db", "/etc/passwd", "", ".", "..", "a/b.db", "a\\..\\b", "a\0b", "./../x"]


@pytest.mark.parametrize("file", FOREIGN)
async def test_a_manifest_that_names_a_file_elsewhere_is_refused_by_name(tmp_path: Path, file: str) -> None:
    place, backups = tmp_path / "log.db", tmp_path / "backups"
    backups.mkdir()
    await (await opened(place)).close()
    backup = made(place, backups)
    found = json.loads(backup.path.read_text())
    backup.path.write_text(json.dumps(found | {"file": file}))
    with pytest.raises(LogCorrupt, match=r"field file: .* is no (path|name)"):
        await restore(backups, tmp_path / "target.db", None, "try")
    assert not (tmp_path / "target.db").exists()


@pytest.mark.parametrize("path", [*FOREIGN[:3], FOREIGN[4], *FOREIGN[6:], "a/../../b"])
def test_an_archives_manifest_names_files_of_the_archive_only(path: str) -> None:
    text = json.dumps({"path": path, "at_ms": 0}).encode()
    with pytest.raises(ValidationError, match="is no path below"):
        Replaced.model_validate_json(text)


async def test_what_is_damaged_in_the_log_is_named_in_its_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "log.db"
    log = await opened(place)
    await log.append(numbered("orders", 20))
    await log.close()
    change_row(in_rows(place), "UPDATE records SET value = x'00ff' WHERE recorded_at = 12")
    change_row(place, "DELETE FROM records WHERE recorded_at = 17")
    assert run(["backup", "--log", f"sqlite:///{place}", "--to", str(tmp_path / "backup.db")]) == 1
    told = capsys.readouterr().out
    assert "orders/0/12 (" in told
    assert "orders/0/17: " in told
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
    return forked.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


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
