"""What every log has to hold of `Log.read` and its readers: nothing of an append is passed over."""
# ruff: noqa: S101  a test speaks in asserts, and its numbers are its point

import asyncio

import pytest

from eventlib.log.base import Log, Reader
from eventlib.model.record import Record
from eventlib.testing.log_fixture import PATIENCE_S, LogFixture, record

_APPENDS = (1, 9, 70, 3)
"""Records of one append: fewer and more than any log is likely to store as one."""
_LIMITS = (1, 2, 7, 9, 64, 65, 100)


class ReadingContract(LogFixture):
    """Reads of any size, from any offset, return each record of an append once, in order."""

    async def appended(self, log: Log) -> tuple[Log, list[Record]]:
        """Append to several partitions at once; return another handle, and what it has to read of the first one."""
        expected = list[Record]()
        for size in _APPENDS:
            mine = [record("a", b"%d/%d" % (size, i), key=b"%d" % (i % 5)) for i in range(size)]
            others = [record(topic, b"x", partition=1) for topic in ("a", "b") for _ in range(9)]
            offsets = await log.append([*mine, *others])
            expected += [each.replace(offset=offset) for each, offset in zip(mine, offsets, strict=False)]
        other = await self.another_handle() if self.durable else log
        await self.until_there(other, "a", [each.value or b"" for each in expected])
        return other, expected

    async def test_none_of_one_append_is_passed_over(self, log: Log) -> None:
        """With every limit, from the beginning to the end: a shorter answer is the last one."""
        other, expected = await self.appended(log)
        for limit in _LIMITS:
            found, offset, last = list[Record](), 0, limit
            while records := await other.read("a", 0, offset, limit):
                assert last == limit, "an answer shorter than its limit was not the last"
                found, offset, last = found + records, records[-1].offset + 1, len(records)
            assert found == expected

    async def test_a_read_begins_at_any_record_of_an_append(self, log: Log) -> None:
        """And ends at any: what is before the offset is not in it."""
        other, expected = await self.appended(log)
        for first in (0, 1, 5, 9, 10, 11, 40, 78, 79, 80, 82):
            for limit in _LIMITS:
                assert await other.read("a", 0, expected[first].offset, limit) == expected[first : first + limit]

    @pytest.mark.parametrize("limit", [1, 5, 9, 200])
    async def test_a_reader_returns_each_record_of_an_append(self, log: Log, limit: int) -> None:
        """Once and in order, beside other partitions and topics, and after a seek into the middle."""
        other, expected = await self.appended(log)
        reader = other.reader({("a", 0): 0, ("a", 1): 0, ("b", 1): 0})
        try:
            found = await _polled(reader, limit, len(expected) + 2 * 36)
            assert [each for each in found if each.location[:2] == ("a", 0)] == expected
            assert len({each.location for each in found}) == len(found)
            reader.seek(("a", 0), expected[30].offset)
            assert await _polled(reader, limit, len(expected) - 30) == expected[30:]
            assert reader.position(("a", 0)) > expected[-1].offset
        finally:
            await reader.close()


async def _polled(reader: Reader, limit: int, count: int) -> list[Record]:
    """Return what polls of a reader return, until there are so many records, and no more."""
    found = list[Record]()
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await reader.poll(limit, 1.0)
    return found + await reader.poll(limit, 0.0)
