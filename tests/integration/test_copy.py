"""`eventlib copy`: what has moved to Kafka is what was in the file, at the same offsets, whatever interrupts it."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from subprocess import CompletedProcess

import pytest

from eventlib.devtools.kafka import Cluster
from eventlib.errors import LogCorrupt, LogReadOnly, LogUnavailable
from eventlib.log.kafka.import_log import ImportLog
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.producer import Producer
from eventlib.log.kafka.topic_configs import INCOMING
from eventlib.log.kafka.topics import Topics
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.operations.migration import Copying
from eventlib.values import now_ms
from tests.commands import ended
from tests.integration.every_form import GOES_ON, TOPICS, check_same, everything, fill
from tests.saga.shop_runs import EVENTLIB


@pytest.fixture
def target(broker: Cluster) -> str:
    return f"{broker.url}/?prefix={token_hex(4)}."


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    log = await SqliteLog.open(tmp_path / "till.db")
    await fill(log)
    yield log
    await log.close()


@pytest.fixture
async def incoming(target: str) -> AsyncIterator[ImportLog]:
    opened = await ImportLog.open(target)
    yield opened
    await opened.close()


def copy(source: SqliteLog, target: str, *options: str) -> CompletedProcess[str]:
    return ended("copy", "--from", source.url, "--to", target, "--json", *options)


async def killed_copy(source: SqliteLog, target: str, incoming: ImportLog, at: int) -> bool:
    """Begin a copy, and kill it as soon as so many offsets are filled; False when it was over before."""
    command = [EVENTLIB, "copy", "--from", source.url, "--to", target]
    quiet = asyncio.subprocess.DEVNULL
    copying = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    while copying.returncode is None and await filled(incoming) < at:
        await asyncio.sleep(0.002)
    in_time = copying.returncode is None
    if in_time:
        copying.kill()
    await copying.wait()
    return in_time


async def filled(incoming: ImportLog) -> int:
    """Count the offsets of the topics that a copy goes on with where it was."""
    return sum([await incoming.end((topic.name, p)) for topic in GOES_ON for p in range(topic.partitions)])


async def test_every_kind_of_record_and_gap_arrives_as_it_was(source: SqliteLog, target: str) -> None:
    done = copy(source, target)
    assert done.returncode == 0, done.stderr
    await check_same(source, target)
    said = json.loads(done.stdout)
    assert said["source_retired"] is True
    assert {each["topic"]: each["records"] for each in said["topics"]} == {
        topic.name: sum([len(await everything(source, topic, p)) for p in range(topic.partitions)]) for topic in TOPICS
    }


async def test_what_has_moved_takes_nothing_more_and_the_copy_does(source: SqliteLog, target: str) -> None:
    assert copy(source, target).returncode == 0
    with pytest.raises(LogReadOnly, match=r"till.db accepts no more writes: it has moved to kafka://"):
        await source.append([Record("facts", 0, -1, now_ms(), b"k", b"v")])
    end = await source.end("facts", 0)
    copied = await KafkaLog.open(target)
    try:
        assert await copied.append([Record("facts", 0, -1, now_ms(), b"k", b"v")]) == [end]
        claim = await copied.seize("till", 1)
        journal = Record("till.journal", 1, -1, now_ms(), None, b"step")
        assert await copied.append([journal], claim) == [await source.end("till.journal", 1)]
    finally:
        await copied.close()
    refused = copy(source, target + "other.")
    assert (refused.returncode, "is closed to writes, since it has moved to" in refused.stderr) == (1, True)
    diagnosed = ended("doctor", "--log", source.url, "--json")
    assert "it has moved to" in diagnosed.stdout


async def test_killed_again_and_again_it_goes_on_where_it_was(
    source: SqliteLog, target: str, incoming: ImportLog
) -> None:
    seed = 20_261
    chance = random.Random(seed)
    await incoming.begin([*(await source.topics()).values()], source.log_id)  # so that there is something to look at
    total = sum([await source.end(topic.name, p) for topic in GOES_ON for p in range(topic.partitions)])
    moments = sorted(chance.randrange(1, total) for _ in range(6))
    kills = sum([await killed_copy(source, target, incoming, at) for at in moments])
    print(f"seed {seed}: {kills} kills came in time")
    done = copy(source, target)
    assert done.returncode == 0 or "is already used as a log" in done.stderr, done.stderr
    assert kills >= 2, "too few kills came in time: nothing was tried"
    await check_same(source, target)


class Cut(Exception):
    pass


def cut_in_a_gap(broken: pytest.MonkeyPatch) -> None:
    """The offsets of a gap are written, and the transaction that they are in stays open."""
    end = Producer._end  # noqa: SLF001  there is no other way to be between the two

    async def fall(producer: Producer, *, committed: bool) -> None:
        if not committed:
            raise Cut
        await end(producer, committed=committed)

    broken.setattr(Producer, "_end", fall)


def cut_between_writes(broken: pytest.MonkeyPatch) -> None:
    put, writes = ImportLog.put, 0

    async def fall(incoming: ImportLog, records: Sequence[Record]) -> None:
        nonlocal writes
        writes += 1
        if writes > 6:
            raise Cut
        await put(incoming, records)

    broken.setattr(ImportLog, "put", fall)


def cut_before_it_is_open(broken: pytest.MonkeyPatch) -> None:
    """Everything is there and compared, and compaction may begin, but nobody may use it yet."""
    delete = Topics.delete

    async def fall(topics: Topics, names: Iterable[str]) -> None:
        if [*names] == [INCOMING.name]:
            raise Cut
        await delete(topics, names)

    broken.setattr(Topics, "delete", fall)


@pytest.mark.parametrize("cut", [cut_in_a_gap, cut_between_writes, cut_before_it_is_open])
async def test_broken_off_at_its_most_delicate_moments(
    source: SqliteLog,
    target: str,
    incoming: ImportLog,
    cut: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = list((await source.topics()).values())
    copying = Copying(source, incoming, topics, lambda *_: None)
    with monkeypatch.context() as broken:
        cut(broken)
        with pytest.raises(Cut):
            await copying.run(None)
    unfinished = await KafkaLog.open(target)
    with pytest.raises(LogUnavailable, match="is an incomplete copy"):
        await unfinished.create_topics(TOPICS)
    await unfinished.close()
    done = copy(source, target, "--source-stays")
    assert done.returncode == 0, done.stderr
    await check_same(source, target)


class Publisher:
    """Publishes something each time that everything was copied, and before it is compared."""

    def __init__(self, source: SqliteLog, times: int) -> None:
        self.left = [Record(("facts", "newest")[i % 2], 0, -1, now_ms(), b"late", b"%d" % i) for i in range(times)]
        self._source = source
        self._before = ""
        self._appends = list["asyncio.Future[list[int]]"]()

    def __call__(self, what: str, _done: int, _total: int) -> None:
        if (self._before, what) == ("copying", "comparing") and self.left:
            self._appends.append(asyncio.ensure_future(self._source.append([self.left.pop()])))
        self._before = what


async def test_what_others_publish_meanwhile_is_copied_too(source: SqliteLog, target: str, incoming: ImportLog) -> None:
    topics = list((await source.topics()).values())
    without_a_pause, now_and_then = Publisher(source, 20), Publisher(source, 3)
    with pytest.raises(LogUnavailable, match="without a pause"):
        await Copying(source, incoming, topics, without_a_pause).run(None)
    report = await Copying(source, incoming, topics, now_and_then).run(None)
    assert (len(without_a_pause.left), now_and_then.left) == (15, [])
    assert report.partitions
    await check_same(source, target)


async def test_records_of_somebody_else_are_found(source: SqliteLog, target: str, incoming: ImportLog) -> None:
    topics = list((await source.topics()).values())
    await incoming.begin(topics, source.log_id)
    await incoming.put([Record("facts", 0, 0, now_ms(), b"k", b"not the same")])
    with pytest.raises(LogCorrupt, match="another producer has written"):
        await incoming.put([Record("facts", 0, 0, now_ms(), b"k", b"again")])
    refused = copy(source, target)
    assert (refused.returncode, "facts/0 differs" in refused.stderr) == (1, True)
    assert copy(source, target, "--from-scratch").returncode == 0
    await check_same(source, target)


async def test_what_is_refused(source: SqliteLog, target: str, tmp_path: Path) -> None:
    member = await source.join("till", 3)
    try:
        refused = await asyncio.to_thread(copy, source, target)  # it is heard of meanwhile, as one that runs is
        assert "service till runs on sqlite:///" in refused.stderr
    finally:
        await member.leave()
    other = await SqliteLog.open(tmp_path / "other.db")
    await other.create_topics([Topic("facts", partitions=1)])
    await other.close()
    begun = await ImportLog.open(target)
    await begun.begin([Topic("facts", partitions=1)], "another")
    await begun.close()
    assert "unfinished copy of another log" in copy(source, target).stderr
    used = await KafkaLog.open(target + "used.")
    await used.create_topics([Topic("facts", partitions=3)])
    await used.close()
    for option in ((), ("--from-scratch",)):
        assert "is already used as a log" in copy(source, target + "used.", *option).stderr
    for wrong in (["--from", "memory://", "--to", target], ["--from", source.url, "--to", "sqlite:///other.db"]):
        refused = ended("copy", *wrong)
        assert (refused.returncode, "a copy is made" in refused.stderr) == (1, True)
    assert await source.append([Record("facts", 0, -1, now_ms(), b"k", b"v")])
