"""The suite that every log has to pass, also one that another process writes.

    class TestMyLog(LogContract):
        async def open_log(self, place: Path) -> Log:
            return await MyLog.open(place / "my.log")

It needs pytest and pytest-asyncio. Times are never tighter than seconds, so that a slow machine passes too.
"""
# ruff: noqa: S101, PLR2004  a test speaks in asserts, and its numbers are its point

import random
from datetime import timedelta

import pytest

from eventlib.errors import ContractError, TopicMismatch
from eventlib.log.base import TOMBSTONES_KEPT, Log
from eventlib.model.topic import PARTITIONERS, Topic
from eventlib.testing.append_contract import AppendContract
from eventlib.testing.damage_contract import DamageContract
from eventlib.testing.log_fixture import LogFixture, record, values
from eventlib.testing.ownership_contract import OwnershipContract
from eventlib.testing.reader_contract import ReaderContract
from eventlib.testing.reading_contract import ReadingContract
from eventlib.values import now_ms

__all__ = ["LONG_AGO_MS", "AppendContract", "KeepingContract", "LogContract", "TopicContract"]

LONG_AGO_MS = now_ms() - 2 * TOMBSTONES_KEPT // timedelta(milliseconds=1)


class TopicContract(LogFixture):
    """Topics: created once, never repartitioned."""

    async def test_topics_are_created_once(self, log: Log) -> None:
        """Creating them again changes nothing, and keeps what is there."""
        await log.append([record("a", b"1")])
        await log.create_topics([Topic("a", partitions=2), Topic("later", partitions=1)])
        assert await values(log, "a", 0) == [b"1"]
        topics = await log.topics()
        assert topics["a"] == Topic("a", partitions=2)
        assert topics["later"] == Topic("later", partitions=1)

    async def test_a_topic_comes_back_as_declared(self, log: Log) -> None:
        """All of its settings are on the log; a later declaration's settings hold from then on."""
        declared = Topic("d", partitions=3, retention=timedelta(days=7), retention_bytes=10**9, max_event_bytes=10**7)
        await log.create_topics([declared])
        assert (await log.topics())["d"] == declared
        await log.create_topics([Topic("d", partitions=3, compacted=True)])
        assert (await log.topics())["d"] == Topic("d", partitions=3, compacted=True)

    async def test_a_topic_can_be_deleted_and_be_there_again(self, log: Log) -> None:
        """With all that was in it, for every handle; others keep theirs, and a new one is empty."""
        await log.append([record(topic, b"%d" % i, partition=i % 2) for i in range(1_500) for topic in ("a", "b")])
        await log.delete_topics(["a", "never"])
        assert "a" not in await log.topics()
        with pytest.raises(ContractError, match="no topic 'a'"):
            await log.append([record("a", b"no")])
        assert len(await values(log, "b", 0)) == 750
        await log.create_topics([Topic("a", partitions=2)])
        assert await values(log, "a", 0) == []
        assert await log.start("a", 1) == await log.end("a", 1)
        await log.append([record("a", b"again", partition=1)])
        assert await values(log, "a", 1) == [b"again"]

    async def test_a_deletion_is_seen_by_others(self, log: Log) -> None:
        """Also by one that has read the topic, and by one that is opened later."""
        self.only_for_durable_logs()
        other = await self.another_handle()
        await log.append([record("a", b"1")])
        assert await values(other, "a", 0) == [b"1"]
        await log.delete_topics(["a"])
        later = await self.another_handle()
        for handle in (other, later):
            assert "a" not in await handle.topics()
            with pytest.raises(ContractError, match="no topic 'a'"):
                await handle.read("a", 0, 0, 1)
        await other.create_topics([Topic("a", partitions=2)])
        await other.append([record("a", b"2")])
        for handle in (log, later):
            assert await values(handle, "a", 0) == [b"2"]

    async def test_a_topic_that_is_created_again_has_another_identity(self, log: Log) -> None:
        """So that its readers learn that it is not the one that they have read; the others keep theirs."""
        await log.append([record("a", b"0")])
        before = await log.identities(["a", "b", "never"])
        assert {name: each.partitions for name, each in before.items()} == {"a": 2, "b": 2}
        assert await log.identities(["a", "b"]) == before
        await log.delete_topics(["a"])
        assert "a" not in await log.identities(["a"])
        await log.create_topics([Topic("a", partitions=2)])
        after = await log.identities(["a", "b"])
        assert after["a"].id != before["a"].id
        assert after["b"] == before["b"]
        (offset,) = await log.append([record("a", b"1")])
        assert (offset == 0) is log.numbers_again

    async def test_another_partition_count_is_refused(self, log: Log) -> None:
        """The sentence says what to do instead, and nothing else of that call is created."""
        with pytest.raises(TopicMismatch, match="new topic") as caught:
            await log.create_topics([Topic("later", partitions=1), Topic("a", partitions=3)])
        assert "replay" in str(caught.value)
        assert "'a'" in str(caught.value)
        assert "later" not in await log.topics()

    async def test_another_partitioner_is_refused(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        """It would send a key's events to other partitions."""
        monkeypatch.setitem(PARTITIONERS, "first", lambda _key, _partitions: 0)
        with pytest.raises(TopicMismatch, match="partitioner"):
            await log.create_topics([Topic("a", partitions=2, partitioner="first")])


class KeepingContract(LogFixture):
    """Retention and compaction: what goes, what stays, and that no offset is given twice."""

    @pytest.fixture(autouse=True)
    def _only_where_it_happens_now(self, request: pytest.FixtureRequest) -> None:
        if request.function.__name__ in vars(KeepingContract):
            self.only_where_compact_is_now()

    async def test_retention_by_time(self, log: Log) -> None:
        """What is older goes from the front; the rest keeps its offsets."""
        old = [record("hour", b"old").replace(timestamp_ms=LONG_AGO_MS + i) for i in range(700)]
        offsets = await log.append([*old, record("hour", b"1"), record("hour", b"2")])
        await log.compact()
        assert await log.start("hour", 0) == await log.log_start("hour", 0) == offsets[-2]
        assert await values(log, "hour", 0) == [b"1", b"2"]
        reader = log.reader({("hour", 0): offsets[3]})
        assert [each.value for each in await reader.poll(10)] == [b"1", b"2"]
        assert reader.take_lost() == {("hour", 0): (offsets[3], offsets[-2])}
        assert reader.take_lost() == {}
        await reader.close()

    async def test_retention_by_size(self, log: Log) -> None:
        """The newest records are kept, as many as fit; a second time counts only what is new."""
        batch = [record("kilobytes", b"%03d" % i + b"x" * 97, key=None) for i in range(200)]
        await log.append(batch)
        await log.compact()
        kept = await values(log, "kilobytes", 0)
        assert kept == [r.value for r in batch[-len(kept) :]]
        assert 50 <= len(kept) <= 100
        await log.append(batch)
        await log.compact()
        assert await values(log, "kilobytes", 0) == kept

    async def test_for_ever_is_the_default(self, log: Log) -> None:
        """A topic without settings loses nothing."""
        await log.append([record("a", b"old").replace(timestamp_ms=LONG_AGO_MS) for _ in range(10)])
        await log.compact()
        assert len(await values(log, "a", 0)) == 10

    async def test_compaction_keeps_the_newest_of_each_key(self, log: Log) -> None:
        """In its place, with its offset; other partitions' equal keys are others."""
        records = [record("compact", b"%d" % i, key=b"k%d" % (i % 7), partition=i % 2) for i in range(1_400)]
        offsets = await log.append(records)
        await log.compact()
        for partition in (0, 1):
            newest = {r.key: (o, r.value) for r, o in zip(records, offsets, strict=True) if r.partition == partition}
            left = await log.read("compact", partition, 0, 1_000)
            assert [(r.offset, r.value) for r in left] == sorted(newest.values())
        await log.append([record("compact", b"again", key=b"k0")])
        await log.compact()
        assert [r.value for r in await log.read("compact", 0, 0, 1_000) if r.key == b"k0"] == [b"again"]

    async def test_compaction_keeps_the_newest_of_each_of_many_keys(self, log: Log) -> None:
        """However records are stored together, and however many a step of compaction looks at."""
        dice, newest = random.Random(6), dict[bytes | None, bytes | None]()  # noqa: S311  as above
        for number in range(80):
            keys = [b"%d" % dice.randrange(2_000) for _ in range(50)]
            records = [record("compact", b"%d %d" % (number, n), key=key) for n, key in enumerate(keys)]
            await log.append(records)
            newest |= {each.key: each.value for each in records}
        await log.compact()
        left = await log.read("compact", 0, 0, 5_000)
        assert (len(left), {each.key: each.value for each in left}) == (len(newest), newest)

    async def test_a_tombstone_ends_its_key_and_stays_for_a_while(self, log: Log) -> None:
        """A young one stays however often is compacted; an old one goes once it stood alone."""
        young = record("compact", None, key=b"young").replace(timestamp_ms=now_ms())
        old = record("compact", None, key=b"old").replace(timestamp_ms=LONG_AGO_MS)
        await log.append([record("compact", b"1", key=b"young"), record("compact", b"1", key=b"old"), young, old])
        await log.compact()
        left = await log.read("compact", 0, 0, 10)
        assert [(r.key, r.value) for r in left] == [(b"young", None), (b"old", None)]
        await log.compact()
        await log.compact()
        assert [r.key for r in await log.read("compact", 0, 0, 10)] == [b"young"]

    async def test_no_offset_is_given_twice(self, log: Log) -> None:
        """Also when the last record of a partition was dropped."""
        old = record("compact", None, key=b"k").replace(timestamp_ms=LONG_AGO_MS)
        (offset,) = await log.append([old])
        for _ in range(3):
            await log.compact()
        assert await log.read("compact", 0, 0, 10) == []
        assert await log.start("compact", 0) == await log.end("compact", 0) == offset + 1
        assert await log.append([record("compact", b"1")]) > [offset]


class LogContract(
    AppendContract, ReadingContract, TopicContract, KeepingContract, ReaderContract, OwnershipContract, DamageContract
):
    """Subclass this with `open_log`, and pytest tries to break each promise of `eventlib.log.base`."""

    async def test_a_log_is_itself_when_opened_again(self, log: Log) -> None:
        """Its id, its topics and its records are as they were; another place has another log."""
        other = await self.open_log(self.place / "other")
        self.handles.append(other)
        assert other.log_id != log.log_id
        if not self.durable:
            return
        await log.append([record("a", b"1"), record("b", b"2")])
        await log.close()
        again = await self.another_handle()
        assert again.log_id == log.log_id
        assert {"a", "b", "c", "compact"} <= (await again.topics()).keys()
        assert await values(again, "a", 0) == [b"1"]
        assert await again.append([record("a", b"3")]) > [0]
