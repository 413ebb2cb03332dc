"""An archive is read as the log that it was made of: the public suite, on a log that is archived with each append."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from analytics.archiving import archive
from analytics.audit.bytes import damage_findings
from eventlib.errors import LogCorrupt, LogReadOnly, LogUnavailable
from eventlib.ground.object_store import Place
from eventlib.log.archive.files import read_manifest
from eventlib.log.archive.log import ArchiveLog
from eventlib.log.base import Claim, Log, Reader, TopicPartition
from eventlib.log.open import open_port
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.doctor.deep import examine_deep
from eventlib.testing.log_contract import AppendContract
from eventlib.testing.log_fixture import record
from eventlib.testing.reader_contract import ReaderContract
from eventlib.values import now_ms
from services import shop

HOUR = Topic("hour", partitions=1, retention=timedelta(hours=1))


class ArchivedLog(SqliteLog):
    """Writes to a file, and reads nothing but its archive."""

    archive: ArchiveLog
    behind = False
    followed: ClassVar = set[Place]()  # the archives that a reader follows while others append

    @classmethod
    async def beside(cls, place: Path) -> "ArchivedLog":
        log = await cls.open(place / "log.db")
        source = await SqliteLog.open(place / "log.db")
        await archive(source, place / "archive")
        await source.close()
        log.archive = await ArchiveLog.open(f"archive:{place}/archive")
        return log

    def catch_up(self) -> ArchiveLog:
        """Archive as another process would, meanwhile."""
        if self.behind:
            self.behind = False
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, self._archived()).result()
        return self.archive

    async def _archived(self) -> None:
        source = await SqliteLog.open(Path(self.url.removeprefix("sqlite:///")))
        await archive(source, self.archive.place)
        await source.close()

    async def create_topics(self, topics: Iterable[Topic]) -> None:
        await super().create_topics(topics)
        self.behind = True
        await self.catch_up().refresh()

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        offsets = await super().append(records, claim)
        self.behind = True
        if self.archive.place in self.followed:
            await self.catch_up().refresh()
        return offsets

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        await self.catch_up().refresh()
        return await self.archive.read(topic, partition, offset, limit)

    async def start(self, topic: str, partition: int) -> int:
        await self.catch_up().refresh()
        return await self.archive.start(topic, partition)

    async def log_start(self, topic: str, partition: int) -> int:
        await self.catch_up().refresh()
        return await self.archive.log_start(topic, partition)

    async def end(self, topic: str, partition: int) -> int:
        return await self.catch_up().end(topic, partition)

    async def decided_end(self, topic: str, partition: int) -> int:
        self.behind = True  # others may have appended
        await self.catch_up().refresh()
        return await self.end(topic, partition)

    async def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        await self.catch_up().refresh()
        return await self.archive.offset_at(topic, partition, timestamp_ms)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        self.followed.add(self.archive.place)
        return self.catch_up().reader(positions)

    async def close(self) -> None:
        await super().close()
        await self.archive.close()


class TestArchiveLog(AppendContract, ReaderContract):
    seen_at_once = False
    compacts_now = False  # what it had, it keeps

    async def open_log(self, place: Path) -> Log:
        return await ArchivedLog.beside(place)


async def written(path: Path, *records: Record, topics: Iterable[Topic] = (Topic("a", partitions=2),)) -> SqliteLog:
    log = await SqliteLog.open(path / "log.db")
    await log.create_topics(topics)
    await log.append(records)
    return log


async def test_an_archive_refuses_every_change(tmp_path: Path) -> None:
    log = await written(tmp_path, record("a", b"1"))
    await archive(log, tmp_path / "archive")
    archived = await open_port(f"archive:{tmp_path}/archive")
    await archived.create_topics((await log.topics()).values())
    changes: list[Any] = [
        archived.append([record("a", b"2")]),
        archived.create_topics([Topic("new")]),
        archived.delete_topics(["a"]),
        archived.seize("s", 0),
        archived.join("s", 1),
    ]
    for change in changes:
        with pytest.raises(LogReadOnly, match="write to sqlite:///"):
            await change
    await archived.close()
    for ask in (archived.start("a", 0), archived.end("a", 0), archived.offset_at("a", 0, 0), archived.seize("s", 0)):
        with pytest.raises(LogUnavailable, match="closed"):
            await ask
    await log.close()


async def test_no_archive_is_said_with_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable, match="python -m analytics archive"):
        await open_port(f"archive:{tmp_path}")


async def test_days_that_overlap_are_read_in_order(tmp_path: Path) -> None:
    day = 86_400_000
    times = [day - 1, day + 1, day - 1, day + 2, 3 * day, day, -1, 9**18]
    records = [record("a", b"%d" % i).replace(timestamp_ms=at) for i, at in enumerate(times)]
    log = await written(tmp_path, *records)
    await archive(log, tmp_path / "archive")
    archived = await open_port(f"archive:{tmp_path}/archive")
    for offset in range(8):
        for limit in (1, 2, 8):
            assert await archived.read("a", 0, offset, limit) == await log.read("a", 0, offset, limit)
    for at in (0, day, day + 1, 2 * day, 4 * day):
        assert await archived.offset_at("a", 0, at) == next(i for i, time in enumerate(times) if time >= at)
    await archived.close()
    await log.close()


async def test_each_read_of_a_file_with_many_groups_is_as_the_log_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analytics.archive_writing.GROUP_ROWS", 4)
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.create_topics([Topic("three", partitions=3)])
    counts = (9, 1, 14)
    for partition, count in enumerate(counts):
        await log.append([record("three", b"%d" % i).replace(partition=partition) for i in range(count)])
    await archive(log, tmp_path / "archive")
    assert len(read_manifest(tmp_path / "archive").files) == 1
    archived = await open_port(f"archive:{tmp_path}/archive")
    for partition, count in enumerate(counts):
        for offset in range(count + 1):
            for limit in (1, 5, 6, 20):
                found = await archived.read("three", partition, offset, limit)
                assert found == await log.read("three", partition, offset, limit)
    await archived.close()
    await log.close()


async def test_retention_drops_nothing_before_it_is_archived(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "log.db", options=SqliteOptions())
    await log.create_topics([HOUR])
    old = record("hour", b"old").replace(timestamp_ms=now_ms() - 7_200_000)
    assert (await archive(log, tmp_path / "archive")).held
    await log.append([old])
    await log.compact()
    assert len(await log.read("hour", 0, 0, 10)) == 1
    assert (await archive(log, tmp_path / "archive")).records == 1
    await log.append([old])
    await log.compact()
    assert [each.offset for each in await log.read("hour", 0, 0, 10)] == [1]
    await log.keep_unarchived(None)
    await log.compact()
    assert await log.read("hour", 0, 0, 10) == []
    late = await archive(log, tmp_path / "archive")
    assert [(lost.topic, lost.first, lost.end) for lost in late.lost] == [("hour", 1, 2)]
    await log.close()


# --- bytes that change


@pytest.fixture
async def three_files(tmp_path: Path) -> Path:
    """An archive of three files of one partition, from three runs."""
    log = await written(tmp_path)
    for number in range(3):
        await log.append([record("a", b"%d/%d" % (number, each) * 40) for each in range(50)])
        await archive(log, tmp_path / "archive")
    await log.close()
    return tmp_path / "archive"


def changes(place: Path) -> Mapping[str, tuple[str, str]]:
    """Do something to a file, or to two; return their paths, and what is said of each."""
    first, _, third = (file.path for file in read_manifest(place).files)
    content = (place / first).read_bytes()
    middle = len(content) // 3
    (place / first).write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])
    (place / third).unlink()
    return {first: ("SHA-256", "is not what was archived"), third: ("cannot be read", "is not what was archived")}


async def test_a_file_that_is_not_what_was_archived_is_named(three_files: Path) -> None:
    url = f"archive:{three_files}"
    assert damage_findings(url) == []
    done = changes(three_files)
    found = damage_findings(url)
    assert [each.sentence.partition(":")[0] for each in found] == list(done)
    assert all(what in each.sentence for each, (what, _) in zip(found, done.values(), strict=True))
    assert [each.what for each in await examine_deep(url, shop, lambda *_: None) if each.verdict == "error"] == [
        each.sentence.partition("; restore it")[0] for each in found
    ]
    archived = await open_port(url)
    assert len(await archived.read("a", 0, 60, 10)) == 10, "what is not touched is read"
    for offset in (0, 110):
        with pytest.raises(LogCorrupt, match="is not what was archived"):
            await archived.read("a", 0, offset, 10)
    await archived.close()


async def test_files_that_were_exchanged_are_named(three_files: Path) -> None:
    first, second, _ = (three_files / file.path for file in read_manifest(three_files).files)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert len(damage_findings(f"archive:{three_files}")) == 2


async def test_a_manifest_that_is_not_what_was_written_is_refused(three_files: Path) -> None:
    path = max((three_files / "manifests").glob("*.json"))
    content = path.read_text()
    end = '"ends": [150, 0]'
    assert end in content
    path.write_text(content.replace(end, '"ends": [140, 0]'))
    with pytest.raises(LogCorrupt, match="its SHA-256 is not that of its content"):
        await open_port(f"archive:{three_files}")


async def test_an_archive_of_the_first_format_is_read_and_goes_on(three_files: Path, tmp_path: Path) -> None:
    path = max((three_files / "manifests").glob("*.json"))
    content = json.loads(path.read_text())
    del content["sha256"]
    for file in content["files"]:
        del file["sha256"]
    path.write_text(json.dumps(content | {"format": 1}))
    assert damage_findings(f"archive:{three_files}") == []
    log = await SqliteLog.open(tmp_path / "log.db")
    await log.append([record("a", b"more")])
    await archive(log, three_files)
    await log.close()
    assert [bool(file.sha256) for file in read_manifest(three_files).files] == [False, False, False, True]
