"""The part of a log's suite about bytes that change under it: found, named, and in the way of nothing else."""
# ruff: noqa: S101  a test speaks in asserts, and its numbers are its point

import asyncio

import pytest

from eventlib.errors import DamagedRecord
from eventlib.log.base import Log, Reader, TopicPartition
from eventlib.model.record import Record
from eventlib.testing.log_fixture import PATIENCE_S, LogFixture, record

_COUNT = 9


class DamageContract(LogFixture):
    """A record whose bytes have changed is never taken for what was written."""

    @pytest.mark.parametrize("bits", [1, 11])
    @pytest.mark.parametrize("which", [0, 4, _COUNT - 1])
    async def test_changed_bytes_are_never_read_as_a_record(self, log: Log, which: int, bits: int) -> None:
        """What is read is what was written; what is missing of it is named, with the place to go on from."""
        written = await self.written(log, 0)
        await self.change(written[which], bits)
        found, damaged = await _read_on(await self.another_handle(), "a", 0)
        assert_accounted_for(written, found, damaged)
        assert bits > 1 or not damaged or written[which].offset in _named(damaged)

    async def test_a_reader_goes_on_beside_a_damaged_record_and_after_it(self, log: Log) -> None:
        """The other partitions' records are returned, the damage is raised, and after a seek what follows is read."""
        written = {("a", partition): await self.written(log, partition) for partition in (0, 1)}
        await self.change(written["a", 0][4], 11)
        reader = (await self.another_handle()).reader({place: records[0].offset for place, records in written.items()})
        found, damaged = await _polled(reader, {place: records[-1].offset + 1 for place, records in written.items()})
        await reader.close()
        assert_accounted_for(written["a", 0], [each for each in found if each.partition == 0], damaged)
        assert [each for each in found if each.partition == 1] == written["a", 1]
        assert len(damaged) == 1

    async def written(self, log: Log, partition: int) -> list[Record]:
        """Append records one by one, and return them as they stand, if this log can be damaged."""
        if not self.can_be_damaged:
            pytest.skip("this log has no bytes that could change by themselves")
        for number in range(_COUNT):
            value = b"value %d of partition %d, long enough to be found" % (number, partition)
            await log.append([record("a", value, key=b"key-%d" % number, partition=partition)])
        return await log.read("a", partition, 0, 100)


def assert_accounted_for(written: list[Record], found: list[Record], damaged: list[DamagedRecord]) -> None:
    """Check that each record was read as it was written, or named as damaged, and not both."""
    named = _named(damaged)
    assert found == [each for each in written if each.offset not in named]


def _named(damaged: list[DamagedRecord]) -> set[int]:
    return {offset for each in damaged for offset in range(each.offset, each.resume_at)}


async def _read_on(log: Log, topic: str, partition: int) -> tuple[list[Record], list[DamagedRecord]]:
    found, damaged = list[Record](), list[DamagedRecord]()
    offset, end = await log.start(topic, partition), await log.end(topic, partition)
    while offset < end:
        try:
            records = await log.read(topic, partition, offset, 4)
        except DamagedRecord as error:
            damaged.append(error)
            offset = max(offset + 1, error.resume_at)
        else:
            found += records
            offset = records[-1].offset + 1 if records else end
    return found, damaged


async def _polled(reader: Reader, ends: dict[TopicPartition, int]) -> tuple[list[Record], list[DamagedRecord]]:
    found, damaged = list[Record](), list[DamagedRecord]()
    async with asyncio.timeout(PATIENCE_S):
        while any(reader.position(place) < end for place, end in ends.items()):
            try:
                found += await reader.poll(3, timeout_s=1.0)
            except DamagedRecord as error:
                damaged.append(error)
                reader.seek((error.topic, error.partition), error.resume_at)
    return found, damaged
