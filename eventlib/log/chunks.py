"""Reading a partition to its end, in bites."""

from collections.abc import AsyncIterator

from eventlib.log.port import Log, Record, TopicPartition

_CHUNK = 2_000


async def chunks(log: Log, place: TopicPartition, first: int) -> AsyncIterator[list[Record]]:
    """Yield a partition's records from an offset on, some thousands at a time, until there are no more.

    Raises: what `Log.read` does.
    """
    offset = first
    while records := await log.read(*place, offset, _CHUNK):
        offset = records[-1].offset + 1
        yield records
