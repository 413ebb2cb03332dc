"""Archiving moves every record once, whatever breaks it off."""

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analytics import archiving
from analytics.archiving import Archived, archive
from eventlib.errors import LogCorrupt, LogUnavailable, WiringError
from eventlib.log.archive.files import newest_number, read_manifest
from eventlib.log.base import Log
from eventlib.log.open import open_port
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.schema import archived_ends
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.testing.log_fixture import record
from tests import forked

ROOT = Path(__file__).resolve().parents[2]
DAY_MS = 86_400_000
TOPICS = [
    Topic("facts", partitions=3),
    Topic("till.journal", partitions=2),
    Topic("newest", partitions=1, compacted=True),
]


@pytest.fixture
async def log(tmp_path: Path) -> Any:
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics(TOPICS)
    yield log
    await log.close()


async def grow(log: Log, turn: int, count: int = 40) -> None:
    """Append records of several days to every topic."""
    places = [(topic.name, partition) for topic in TOPICS for partition in range(topic.partitions)]
    records = [
        Record(
            *places[i % len(places)],
            -1,
            (turn + i % 3) * DAY_MS + i,
            b"k%d" % (i % 4),
            b"%d-%d" % (turn, i),
            id=f"{turn}-{i}",
        )
        for i in range(count)
    ]
    await log.append(records)


async def everything(log: Log) -> list[Record]:
    places = [(topic.name, p) for topic in (await log.topics()).values() for p in range(topic.partitions)]
    return [each for place in sorted(places) for each in await log.read(*place, 0, 1_000_000)]


async def archived(place: Path) -> list[Record]:
    log = await open_port(f"archive:{place}")
    found = await everything(log)
    await log.close()
    return found


def files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in (place / "data").rglob("*.parquet")}


async def test_only_what_is_new_is_read_and_nothing_new_changes_nothing(log: SqliteLog, tmp_path: Path) -> None:
    place = tmp_path / "archive"
    for turn in range(3):
        await grow(log, turn)
        done = await archive(log, place)
        assert (done.records, sum(len(span) for span in done.read.values())) == (40, 40)
        before = newest_number(place), files(place)
        again = await archive(log, place)
        assert (again.records, again.read) == (0, {})
        assert (newest_number(place), files(place)) == before
    assert await archived(place) == await everything(log)


async def test_many_small_files_become_one(log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "archive"
    merged = 0
    for _ in range(20):
        await grow(log, 0)
        merged += (await archive(log, place)).merged
    manifest = read_manifest(place)
    days = Counter((file.topic, file.date) for file in manifest.files)
    assert merged > 16
    assert max(days.values()) < 8
    assert await archived(place) == await everything(log)
    assert len(files(place)) > len(manifest.files)  # for those who read an older manifest
    monkeypatch.setattr(archiving, "now_ms", lambda: manifest.committed_ms + 2 * 3_600_000)
    await archive(log, place)
    assert files(place) == {file.path for file in read_manifest(place).files}
    assert await archived(place) == await everything(log)


async def test_a_compacted_topic_keeps_what_was_archived(log: SqliteLog, tmp_path: Path) -> None:
    await grow(log, 0)
    before = await everything(log)
    await archive(log, tmp_path / "archive")
    await log.compact()
    assert len(await everything(log)) < len(before)
    assert await archived(tmp_path / "archive") == before


async def one_record(path: Path) -> str:
    log = await SqliteLog.open(path)
    await log.create_topics(TOPICS)
    await log.append([record("facts", b"1")])
    await log.close()
    return f"sqlite:///{path}"


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


async def test_broken_off_at_any_write_it_goes_on(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, fsync = tmp_path / "archive", os.fsync
    await grow(log, 0)
    await archive(log, place)
    killed = 0
    for n in range(200):
        await grow(log, n % 5)
        left = n

        def kill(handle: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            fsync(handle)

        monkeypatch.setattr(os, "fsync", kill)
        try:
            await archive(log, place)
        except Killed:
            killed += 1
        else:
            break
        finally:
            monkeypatch.setattr(os, "fsync", fsync)
        manifest = read_manifest(place)
        assert await archived(place) == [
            each for each in await everything(log) if each.offset < manifest.ends[each.topic, each.partition]
        ]
    assert killed > 10
    await archive(log, place)
    assert await archived(place) == await everything(log)
    assert files(place) == {file.path for file in read_manifest(place).files} | {
        each.path for each in read_manifest(place).replaced
    }


_ARCHIVING = """
import asyncio, sys
from pathlib import Path
from analytics import archiving
from analytics.archiving import archive
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.schema import archived_ends
from tests.integration.test_archiving import grow

async def main(path, place):
    log = await SqliteLog.open(path)
    print("begins", flush=True)
    for turn in range(1000):
        await grow(log, turn % 4, 300)
        await archive(log, Path(place))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.extended
async def test_killed_at_random_moments_it_goes_on(log: SqliteLog, tmp_path: Path) -> None:
    place, seeded = tmp_path / "archive", random.Random(11)
    command = [sys.executable, "-c", _ARCHIVING, str(tmp_path / "log.db"), str(place)]
    for _ in range(5):
        with forked.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"begins\n"
            await asyncio.sleep(seeded.uniform(0.05, 0.6))
            process.kill()
    await archive(log, place)
    found = await archived(place)
    assert len(found) > 300
    assert found == await everything(log)


async def test_another_log_or_a_shorter_one_is_refused(log: SqliteLog, tmp_path: Path) -> None:
    await grow(log, 0)
    await archive(log, tmp_path / "archive")
    other = await SqliteLog.open(tmp_path / "other.db")
    with pytest.raises(WiringError, match="archive of another log"):
        await archive(other, tmp_path / "archive")
    await other.close()
    with sqlite3.connect(tmp_path / "log.db") as source, sqlite3.connect(tmp_path / "restored.db") as copy:
        source.backup(copy)
    await grow(log, 0)
    await archive(log, tmp_path / "archive")
    restored = await SqliteLog.open(tmp_path / "restored.db")
    with pytest.raises(WiringError, match="restored from a copy"):
        await archive(restored, tmp_path / "archive")
    await restored.close()
    await log.delete_topics(["facts"])
    await log.create_topics([Topic("facts", partitions=2)])
    with pytest.raises(WiringError, match="facts had 3 partitions"):
        await archive(log, tmp_path / "archive")


async def test_two_at_once_are_refused(log: SqliteLog, tmp_path: Path) -> None:
    await grow(log, 0)
    tries: list[Callable[[], Any]] = [lambda: archive(log, tmp_path / "archive")] * 2
    done = await asyncio.gather(*(attempt() for attempt in tries), return_exceptions=True)
    assert {type(each) for each in done} == {Archived, LogUnavailable}


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1, "number": "x"}'])
async def test_a_damaged_manifest_is_said(log: SqliteLog, tmp_path: Path, content: str) -> None:
    await grow(log, 0)
    await archive(log, tmp_path)
    (tmp_path / "manifests" / "0000000002.json").write_text(content)
    with pytest.raises(LogCorrupt, match=r"0000000002\.json is damaged"):
        await archive(log, tmp_path)


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    url = asyncio.run(one_record(tmp_path / "log.db"))
    command = [sys.executable, "-m", "analytics", "archive", "--log", url, "--to", str(tmp_path / "a"), "--json"]
    said = forked.run(command, cwd=ROOT, capture_output=True, timeout=120, check=True)
    told = json.loads(said.stdout)
    assert (told["records"], told["files"], told["read"]) == (1, 1, {"facts": {"0": [0, 1]}})
    wrong = forked.run(
        [*command[:5], "sqlite:///no/such.db", *command[6:]],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("analytics: there is no log at no/such.db")


def test_a_log_can_be_released_from_its_archive(tmp_path: Path) -> None:
    url = asyncio.run(one_record(tmp_path / "log.db"))
    command = [sys.executable, "-m", "analytics", "archive", "--log", url]
    forked.run([*command, "--to", str(tmp_path / "a")], cwd=ROOT, capture_output=True, timeout=120, check=True)
    with sqlite3.connect(tmp_path / "log.db") as connection:
        assert archived_ends(connection)
    forked.run([*command, "--release"], cwd=ROOT, capture_output=True, timeout=120, check=True)
    with sqlite3.connect(tmp_path / "log.db") as connection:
        assert archived_ends(connection) is None


async def test_a_log_on_kafka_is_archived_too(kafka_url: str, tmp_path: Path) -> None:
    log = await open_port(kafka_url)
    try:
        await log.create_topics([Topic("facts", partitions=2)])
        claim = await log.seize("teller", 0)
        for turn in range(3):  # each transaction's marker takes an offset as well
            await log.append([record("facts", b"%d-%d" % (turn, i), partition=i % 2) for i in range(9)], claim)
            await _can_be_read(log, "facts", 2)
            done = await archive(log, tmp_path)
            assert (done.records, done.held, done.lost) == (9, False, ())
            assert (await archive(log, tmp_path)).read == {}
        assert await archived(tmp_path) == await everything(log)
        assert len(await archived(tmp_path)) == 27
    finally:
        await log.close()


async def _can_be_read(log: Log, topic: str, partitions: int) -> None:
    """Wait until brokers have marked what they have answered as committed."""
    async with asyncio.timeout(120):
        for partition in range(partitions):
            await log.decided_end(topic, partition)
