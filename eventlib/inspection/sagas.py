"""Finds the records of one saga on a log that has no index: a scan, but of no more than is needed."""

from collections.abc import AsyncIterator

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.inspection.decoding import event_topics
from eventlib.log.port import Record, TopicPartition
from eventlib.saga import Saga, saga_of

_CHUNK = 2_000


async def find_saga(log: EventLog, key: str) -> Saga:
    """Return the saga of a key: the events under it, and all that share a correlation id with one of them.

    Cost: reads the key's own partitions whole, and of the others what was recorded since the saga's first request.
    Raises: ContractError when no event has this key.
    """
    own = await _of_key(log, key)
    if not own:
        raise ContractError(f"no event on this log has the key {key!r}: `eventlib tail` shows those that are there")
    correlated = await _correlated(log, own)
    records = {(record.topic, record.partition, record.offset): record for record in [*own, *correlated]}
    return saga_of(key, await log.decode_many(records.values()), log.choreography)


async def _of_key(log: EventLog, key: str) -> list[Record]:
    wanted = key.encode()
    found = list[Record]()
    for topic in event_topics(log):
        place = topic.name, topic.partition_of(wanted)
        async for records in _chunks(log, place, await log.port.start(*place)):
            found += [record for record in records if record.key == wanted]
    return found


async def _correlated(log: EventLog, own: list[Record]) -> list[Record]:
    """Return the records that share a correlation id with these, these perhaps included."""
    wanted = {record.correlation_id or record.event_id for record in own}
    # Nothing of a story is older than the request that began it, so if all of those are here, the rest is later.
    roots_known = wanted <= {record.event_id for record in own}
    since_ms = min(record.timestamp_ms for record in own) if roots_known else None
    found = list[Record]()
    for topic in event_topics(log):
        for partition in range(topic.partitions):
            place = topic.name, partition
            if since_ms is None:
                first = await log.port.start(*place)
            else:
                first = await log.port.offset_at(*place, since_ms)
            async for records in _chunks(log, place, first):
                found += [record for record in records if record.correlation_id in wanted]
    return found


async def _chunks(log: EventLog, place: TopicPartition, first: int) -> AsyncIterator[list[Record]]:
    offset = first
    while records := await log.port.read(*place, offset, _CHUNK):
        offset = records[-1].offset + 1
        yield records
