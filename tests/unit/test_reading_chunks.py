"""A partition that is read in several chunks comes whole."""

import pytest

from eventlib.log.memory import MemoryLog
from eventlib.log.reading import chunks
from eventlib.model.record import Record
from eventlib.model.topic import Topic


@pytest.mark.parametrize("first", range(8))
async def test_nothing_is_left_out_or_twice_where_one_chunk_ends_and_another_begins(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlib.log.reading.CHUNK", 3)
    log = MemoryLog()
    await log.create_topics([Topic("a", partitions=1)])
    await log.append([Record("a", 0, -1, 1, b"k", b"%d" % n) for n in range(7)])
    found = [record.offset async for records in chunks(log, ("a", 0), first) for record in records]
    assert found == [*range(first, 7)]
