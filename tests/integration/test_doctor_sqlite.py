"""`eventlib doctor` on an SQLite log: each fault is made for real, and found with what to do."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from eventlib.cli import run
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.doctor.disk import network_file_system
from eventlib.operations.doctor.examination import examine as examine_here
from eventlib.operations.doctor.sqlite import examine_file
from eventlib.registry.records import SCHEMAS
from eventlib.values import now_ms
from services import shop
from tests import forked
from tests.contract.places import read_only, tiny_file_system

Examine = Callable[[Path | str], list[dict[str, Any]]]
HOLDER = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """A log with the shop's topics on it, and nothing wrong with it."""
    path = tmp_path / "shop.db"
    opened = await SqliteLog.open(path)
    await opened.create_topics([*shop.topics, SCHEMAS])
    await opened.close()
    return path


def test_a_log_with_nothing_wrong(examine: Examine, log: Path) -> None:
    found = examine(log)
    assert [(each["check"], each["verdict"]) for each in found] == [
        (check, "ok") for check in ("journal", "pages", "lock", "services", "topics", "times", "keys", "inputs")
    ]


def test_a_log_that_is_not_there_is_no_error(examine: Examine, tmp_path: Path) -> None:
    (found,) = examine(tmp_path / "none" / "shop.db")
    assert (found["check"], found["verdict"]) == ("file", "warning")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty.db").touch()
    (found,) = examine(tmp_path / "empty.db")
    assert (found["check"], found["verdict"]) == ("file", "warning")


def test_a_file_that_is_no_log(examine: Examine, tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("to do: " * 1_000, encoding="utf-8")
    (found,) = faults(examine(tmp_path / "notes.db"))
    assert "notes.db is damaged, is not a log at all" in found["what"]
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (name)")
    other.close()
    (found,) = faults(examine(tmp_path / "other.db"))
    assert "not a log of this library" in found["what"]


def test_a_damaged_page(examine: Examine, log: Path) -> None:
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.seek(size - 4096)
        file.write(os.urandom(4096))
    (found, *_) = faults(examine(log))
    assert (found["check"], found["verdict"]) in {("pages", "error"), ("file", "error")}
    assert "backup" in found["remedy"]


def test_another_journal_mode(examine: Examine, log: Path) -> None:
    with sqlite3.connect(log) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    (found,) = faults(examine(log))
    assert (found["check"], found["verdict"]) == ("journal", "error")
    assert "PRAGMA journal_mode=WAL" in found["remedy"]


def test_a_lock_that_is_held_names_the_process(examine: Examine, log: Path) -> None:
    with forked.Popen([sys.executable, "-c", HOLDER, log], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            (found,) = faults(examine(log))
        finally:
            holder.kill()
    assert (found["check"], found["verdict"]) == ("lock", "error")
    assert f"process {holder.pid} (" in found["what"]


async def test_who_runs_services(log: Path) -> None:
    opened = await SqliteLog.open(log)
    try:
        await opened.join("stock", 8)
        (found,) = [each for each in examine_file(log) if each.check == "services"]
        assert found.what.startswith(f"stock: process {os.getpid()} on ")
    finally:
        await opened.close()


async def test_topics_that_differ(log: Path) -> None:
    opened = await SqliteLog.open(log)
    await opened.delete_topics(["stock.lines", "orders"])
    await opened.create_topics([Topic("stock.lines", partitions=3), Topic("orders", retention=timedelta(days=7))])
    await opened.close()
    found = [each for each in await examine_here(f"sqlite:///{log}", shop, "var/state") if each.verdict != "ok"]
    assert [(each.check, each.verdict) for each in found] == [("topics", "warning"), ("topics", "error")]
    retention, partitions = found
    assert "'orders': retention is 7 days, 0:00:00, declared None" in retention.what
    assert "'stock.lines' has 3 partitions on the log, but is declared with 8" in partitions.what
    assert "declare a new topic" in partitions.remedy


async def test_events_from_the_future(log: Path) -> None:
    opened = await SqliteLog.open(log)
    await opened.append([Record("orders", 3, -1, now_ms() + 600_000, b"1", b"")])
    await opened.close()
    (found,) = [each for each in await examine_here(f"sqlite:///{log}", shop, "var/state") if each.verdict != "ok"]
    assert (found.check, found.verdict) == ("times", "warning")
    assert "events on orders are from the future" in found.what
    assert "60" in found.what


def test_a_disk_with_little_room(examine: Examine, tmp_path: Path, log: Path) -> None:
    with tiny_file_system(tmp_path / "tiny", "4m") as place:
        (place / "shop.db").write_bytes(log.read_bytes())
        (found,) = faults(examine(place / "shop.db"))
    assert (found["check"], found["verdict"]) == ("file", "error")
    assert "MB left" in found["what"]


def test_a_directory_that_cannot_be_written(examine: Examine, tmp_path: Path) -> None:
    with read_only(tmp_path):
        (found,) = faults(examine(tmp_path / "shop.db"))
    assert "cannot be written by this user" in found["what"]


def test_file_systems_of_other_machines_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/data {tmp_path}/da\\040ta nfs4 rw 0 0\n", encoding="utf-8")
    monkeypatch.setattr("eventlib.operations.doctor.disk._MOUNTS", mounts)
    assert network_file_system(tmp_path / "da ta" / "deep") == "nfs4"
    assert network_file_system(tmp_path) is None


def test_what_a_person_sees(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["doctor", "--log", f"sqlite:///{tmp_path}/shop.db"]) == 0
    assert "→ `eventlib run` makes one" in capsys.readouterr().out
    assert run(["doctor", "--log", "memory://"]) == 1
    assert "cannot be examined from outside its process" in capsys.readouterr().err


def faults(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in found if each["verdict"] != "ok"]
