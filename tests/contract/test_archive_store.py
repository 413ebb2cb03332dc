"""An archive on an object store: the same records, once, however many archive at the same time and wherever one is killed."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from analytics.archiving import archive
from analytics.cli import run
from eventlib.errors import LogUnavailable
from eventlib.ground.object_store import ObjectStore
from eventlib.log.archive.files import read_manifest
from eventlib.log.archive.log import ArchiveLog
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.testing.log_fixture import record
from tests.analytics.killing import Killed, killed_at
from tests.commands import ended, said

TOPICS = [Topic("a", partitions=2), Topic("b", partitions=1)]


async def grown(log: SqliteLog, turn: int) -> None:
    await log.append([record("a", f"{turn}-{n}".encode(), partition=n % 2) for n in range(5)])
    await log.append([record("b", f"{turn}".encode())])


async def everything(log: SqliteLog | ArchiveLog) -> list[Record]:
    return [
        each for topic in TOPICS for n in range(topic.partitions) for each in await log.read(topic.name, n, 0, 1_000)
    ]


async def opened(path: Path) -> SqliteLog:
    log = await SqliteLog.open(path / "log.db")
    await log.create_topics(TOPICS)
    return log


@pytest.mark.extended
async def test_killed_before_any_write_to_the_store_each_record_is_there_once(
    tmp_path: Path, store: ObjectStore
) -> None:
    log, there = await opened(tmp_path), list[Record]()
    for turn in range(24):
        await grown(log, turn)
        before, now = there, await everything(log)
        with killed_at(turn % 6, store) as writes, suppress(Killed):
            await archive(log, store)
        if before:
            assert await everything(await ArchiveLog.open(f"archive:{store}")) in (before, now), writes
        await archive(log, store)
        there = await everything(await ArchiveLog.open(f"archive:{store}"))
        assert there == now
    manifest = read_manifest(store)
    assert any("-m0" in file.path for file in manifest.files)  # small ones were merged
    needed = {file.path for file in manifest.files} | {each.path for each in manifest.replaced}
    assert store.sizes("data/").keys() == needed
    assert 10 <= len(store.sizes("manifests/")) <= 20
    await log.close()


async def test_of_two_that_archive_at_the_same_time_one_commits(tmp_path: Path, store: ObjectStore) -> None:
    log = await opened(tmp_path)
    await grown(log, 1)
    overtaken = list[str]()

    def meanwhile(topic: str, *_: int) -> None:
        if not overtaken:
            overtaken.append(topic)
            said("archive", "--log", log.url, "--to", str(store), by=run)

    with pytest.raises(LogUnavailable, match=r"another process has archived to s3a://.* meanwhile"):
        await archive(log, store, meanwhile)
    assert await everything(await ArchiveLog.open(f"archive:{store}")) == await everything(log)
    await grown(log, 2)
    await archive(log, store)
    assert await everything(await ArchiveLog.open(f"archive:{store}")) == await everything(log)
    await log.close()


async def test_commands_read_it_and_damage_is_found(tmp_path: Path, store: ObjectStore) -> None:
    log = await opened(tmp_path)
    await grown(log, 1)
    told = json.loads(said("archive", "--log", log.url, "--to", str(store), "--json", by=run))
    assert (told["archive"], told["records"]) == (f"archive:{store}", 6)
    assert said("tail", "a", "--log", f"archive:{store}", "--json") == said("tail", "a", "--log", log.url, "--json")
    file = read_manifest(store).files[0]
    store.put(file.path, store.get(file.path)[0][:-1] + b"!")
    found = ended("doctor", "--deep", "--log", f"archive:{store}")
    assert (found.returncode, f"{file.path}: its SHA-256 is not that" in " ".join(found.stdout.split())) == (1, True)
    await log.close()
