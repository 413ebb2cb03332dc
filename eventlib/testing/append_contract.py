"""What a log promises of appends, and of finding their records again. Part of `eventlib.testing.log_contract`."""
# ruff: noqa: S101, PLR2004  a test speaks in asserts, and its numbers are its point

import asyncio
import random
from typing import ClassVar

import pytest

from eventlib.errors import ContractError, LogUnavailable
from eventlib.log.base import Log, keep_newest
from eventlib.log.rules import stored_bytes
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.testing.log_fixture import LogFixture, record, values

_KEYS = [b"a", b"b", b"c", b"\xff", "é".encode(), None, b""]


class AppendContract(LogFixture):
    """Appends: offsets, atomicity, and what is refused."""

    fields: ClassVar[list[Record]] = [
        record("a", b"1", key=None),
        record("a", None, key=b"gone"),
        record("a", b"", key=b""),
        record("a", b"\x00\xff" * 500, key=b"\xff\xfe"),
        record("a", b"e").replace(
            timestamp_ms=1_700_000_000_123,
            id="0" * 32,
            type="StockReserved",
            source="stock/reservation",
            subject="größe-☃",
            sequence=2**53,
            correlation_id="c",
            causation_id="d",
            traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
            headers=(("h", b"x"), ("h", b"\xff\x00"), ("e", b""), ("ü", "☃".encode())),
        ),
    ]

    async def test_offsets_count_up_in_each_partition(self, log: Log) -> None:
        """Each partition counts for itself, and `append` answers in the order that it was asked."""
        records = [record("a", b"%d" % i, partition=i % 2) for i in range(6)]
        offsets = await log.append(records)
        assert offsets[0] < offsets[2] < offsets[4]
        assert offsets[1] < offsets[3] < offsets[5]
        assert await values(log, "a", 0) == [b"0", b"2", b"4"]
        assert await values(log, "a", 1) == [b"1", b"3", b"5"]
        assert [r.offset for r in await log.read("a", 1, 0, 10)] == [offsets[1], offsets[3], offsets[5]]

    async def test_a_record_comes_back_as_it_was_given(self, log: Log) -> None:
        """Every field survives, with bytes that are no text, empty ones, and none."""
        offsets = await log.append(self.fields)
        expected = [r.replace(offset=o) for r, o in zip(self.fields, offsets, strict=True)]
        assert await log.read("a", 0, 0, 10) == expected

    async def test_reading_from_an_offset(self, log: Log) -> None:
        """`read` gives at most `limit`, and nothing from the end on."""
        offsets = await log.append([record("a", b"%d" % i) for i in range(10)])
        found = await log.read("a", 0, offsets[4], 3)
        assert [r.value for r in found] == [b"4", b"5", b"6"]
        assert len(await log.read("a", 0, offsets[8], 100)) == 2
        assert await log.read("a", 0, await log.end("a", 0), 5) == []
        assert await log.read("a", 1, 0, 5) == []

    async def test_start_and_end(self, log: Log) -> None:
        """An empty partition starts at its end; the end is where the next record goes."""
        assert await log.start("a", 0) == await log.end("a", 0)
        end = await log.end("a", 0)
        (offset,) = await log.append([record("a", b"1")])
        assert await log.start("a", 0) == offset >= end
        assert await log.log_start("a", 0) <= offset
        assert await log.end("a", 0) > offset

    async def test_what_is_appended_meanwhile_lies_neither_before_the_start_nor_before_a_time(self, log: Log) -> None:
        """Who begins at the start reads all, also what somebody appends at that very moment."""
        self.only_for_durable_logs()
        other, partitions = await self.another_handle(), range(60)
        await log.create_topics([Topic("fresh", partitions=len(partitions))])

        async def append(partition: int) -> int:
            await asyncio.sleep(partition % 20 * 0.000_25)
            return (await log.append([record("fresh", b"x", partition=partition)]))[0]

        for partition in partitions:
            looks = other.start("fresh", partition), other.offset_at("fresh", partition, 0)
            offset, *found = await asyncio.gather(append(partition), *looks)
            assert max(found) <= offset

    async def test_offset_at_a_time(self, log: Log) -> None:
        """The first record that is not older counts, also when times do not rise with the offsets."""
        times = [1_000_000 + t for t in (10, 20, 15, 40, 30)]
        offsets = await log.append([record("a", b"x").replace(timestamp_ms=t) for t in times])
        end = await log.end("a", 0)
        asked = {0: 0, 10: 0, 11: 1, 20: 1, 21: 3, 40: 3}
        found = {t: await log.offset_at("a", 0, 1_000_000 + t) for t in asked}
        assert found == {t: offsets[i] for t, i in asked.items()}
        assert await log.offset_at("a", 0, 1_000_041) == end
        assert await log.offset_at("a", 1, 0) == await log.end("a", 1)

    async def test_offset_at_a_time_in_a_long_partition(self, log: Log) -> None:
        """It is exact however the log looks it up."""
        given = [record("a", b"x").replace(timestamp_ms=1_000_000 + i // 3 * 10) for i in range(5_000)]
        offsets = [o for first in range(0, 5_000, 500) for o in await log.append(given[first : first + 500])]
        for index in (0, 1, 300, 1_023, 1_024, 1_666):
            offset = await log.offset_at("a", 0, 1_000_000 + index * 10 - 5)
            assert (await log.read("a", 0, offset, 1))[0].timestamp_ms == 1_000_000 + index * 10
            assert offset == offsets[index * 3]

    async def test_an_append_to_several_topics_is_whole_or_not_at_all(self, log: Log) -> None:
        """When the last record is refused, none of the others is there."""
        await log.append([record("a", b"1"), record("b", b"2"), record("c", b"3", partition=1)])
        with pytest.raises(ContractError):
            await log.append([record("a", b"4"), record("b", b"5"), record("nowhere", b"6")])
        assert await values(log, "a", 0) == [b"1"]
        assert await values(log, "b", 0) == [b"2"]
        assert await values(log, "c", 1) == [b"3"]

    async def test_appends_at_the_same_time_each_get_their_own_answer(self, log: Log) -> None:
        """Refused ones fail alone; each one's records stand in the order that they were given in."""
        good = [[record("a", b"%d/%d" % (i, j)) for j in range(3)] for i in range(50)]
        refused = [record("a", b"no"), record("a", b"x", partition=99)]
        asked = [log.append(refused if i % 10 == 5 else records) for i, records in enumerate(good)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        there = {r.offset: r.value for r in await log.read("a", 0, 0, 1_000)}
        for i, answer in enumerate(answers):
            if i % 10 == 5:
                assert isinstance(answer, ContractError)
            else:
                assert not isinstance(answer, BaseException)
                assert [there.pop(offset) for offset in answer] == [r.value for r in good[i]]
        assert there == {}

    async def test_the_newest_of_each_key_is_what_folding_all_records_gives(self, log: Log) -> None:
        """With any keys, types and tombstones, from any offset on."""
        dice = random.Random(3)  # noqa: S311  seeded, not cryptography
        said = [
            record("a", None if dice.random() < 0.2 else b"%d" % n, key=dice.choice(_KEYS), partition=n % 2)
            for n in range(400)
        ]
        kinds = [None, "Listed", "Listed", "Renamed"]
        said = [one.replace(type=dice.choice(kinds)) for one in said]
        for first in range(0, len(said), 7):
            await log.append(said[first : first + 7])
        for kind in (None, "Listed"):
            for offset in (0, 50):
                kept, expected = {b"before": b"1"}, {b"before": b"1"}
                end = await log.newest(("a", 0), offset, kept, kind)
                keep_newest(await log.read("a", 0, offset, 1_000), expected, kind)
                assert kept == expected
                assert end == await log.end("a", 0)
                assert await log.newest(("a", 0), end, {}, kind) == end

    async def test_the_decided_end_is_after_what_anybody_has_appended(self, log: Log) -> None:
        """And then it can be read, also where an append returns before that."""
        self.only_for_durable_logs()
        other = await self.another_handle()
        for number in range(5):
            offset, _ = await other.append([record("a", b"%d" % number), record("b", b"1")])
            assert await log.decided_end("a", 0) > offset
            assert [r.value for r in await log.read("a", 0, offset, 10)] == [b"%d" % number]

    async def test_an_empty_append_is_nothing(self, log: Log) -> None:
        """It answers with no offsets."""
        assert await log.append([]) == []

    async def test_a_record_over_the_largest_event_is_refused(self, log: Log) -> None:
        """The sentence names the topic, the size, and the largest one; a value of just that size is taken."""
        await log.append([record("small", b"x" * 1_000)])
        with pytest.raises(ContractError, match="small") as caught:
            await log.append([record("a", b"1"), record("small", b"x" * 1_001)])
        assert "1,001" in str(caught.value)
        assert "1,000" in str(caught.value)
        assert await values(log, "a", 0) == []

    async def test_a_record_with_too_much_beside_its_value_is_refused(self, log: Log) -> None:
        """Key, attributes and headers count, on every log alike; a record of just the most bytes is taken."""
        small = record("small", b"1")
        for much in (
            small.replace(key=b"k" * 70_000),
            small.replace(subject="s" * 70_000),
            small.replace(key=b"k" * 35_000, correlation_id="c" * 35_000),
            small.replace(headers=(("h", b"x" * 70_000),)),
            small.replace(headers=tuple((f"h{number}", b"") for number in range(9_000))),
            record("a", b"v" * 995_000, key=b"k" * 90_000),
        ):
            with pytest.raises(ContractError, match=f"'{much.topic}'.*with its key and headers"):
                await log.append([record("a", b"1"), much])
        assert await values(log, "a", 0) == []
        noise = random.Random(4).randbytes(1_100_000)  # noqa: S311  as above
        for topic, value, most in (("small", noise[:1_000], 66_536), ("a", noise[:955_000], 1_065_536)):
            full = record(topic, value, key=b"").replace(subject="s" * 100, headers=(("h", b"x" * 100),))
            while (room := most - stored_bytes(full)) > 0:
                full = full.replace(key=noise[: len(full.key or b"") + max(room * 9 // 10, 1)])
            (offset,) = await log.append([full])
            assert await log.read(topic, 0, offset, 1) == [full.placed(offset)]

    async def test_unknown_places_are_refused(self, log: Log) -> None:
        """A topic or partition that is not there is a ContractError, wherever it is named."""
        for topic, partition in (("nowhere", 0), ("a", 2), ("a", -1)):
            for ask in (
                log.append([record(topic, b"x", partition=partition)]),
                log.read(topic, partition, 0, 1),
                log.start(topic, partition),
                log.end(topic, partition),
                log.offset_at(topic, partition, 0),
            ):
                with pytest.raises(ContractError, match=topic):
                    await ask

    async def test_a_closed_log_says_so(self, log: Log) -> None:
        """Whatever it is asked fails with LogUnavailable; closing again does nothing."""
        await log.close()
        await log.close()
        asked = [log.start("a", 0), log.end("a", 0), log.offset_at("a", 0, 0), log.join("s", 1)]
        for ask in (log.append([record("a", b"x")]), log.read("a", 0, 0, 1), *asked):
            with pytest.raises(LogUnavailable, match="closed"):
                await ask
