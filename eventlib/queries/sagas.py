"""Finds the records of one saga without an index."""

from collections.abc import AsyncGenerator
from datetime import datetime

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.losses import warn_of_lost
from eventlib.log.reading import chunks
from eventlib.model.record import Record
from eventlib.model.saga import Decoded, Saga, saga_of
from eventlib.queries.decoding import event_topics_there
from eventlib.values import from_ms, to_ms

_CHUNK = 2_000
Known = dict[tuple[str, int, int], Decoded]


async def find_saga(log: EventLog, key: str, until: datetime | None = None) -> Saga:
    """Return the saga of a key: the events under it, and all that share a correlation id with one of them.

    With `until` it is what was recorded by then (UTC, that millisecond included).
    Cost: reads the key's own partitions whole, and of the others what was recorded since the saga's first request.
    Raises: ContractError when no event has this key, or none had by then.
    """
    records = await _records_of(log, key)
    if not records:
        raise ContractError(f"no event on this log has the key {key!r}: `eventlib tail` shows those that are there")
    if until is not None:
        first = from_ms(min(record.timestamp_ms for record in records)).isoformat(timespec="milliseconds")
        records = [record for record in records if record.timestamp_ms <= to_ms(until)]
        if not records:
            raise ContractError(f"nothing of {key!r} was recorded by then: its first event is of {first}")
    return saga_of(key, await log.decode_many(records), log.choreography)


async def follow_saga(log: EventLog, key: str) -> AsyncGenerator[Saga, None]:
    """Yield a key's saga as it stands, perhaps still without events, and again whenever it has grown.

    Guarantee: each event is in the saga from the poll that reads it on, whichever service emitted it. Never ends.
    """
    places = [
        (topic.name, partition) for topic in await event_topics_there(log) for partition in range(topic.partitions)
    ]
    reader = log.port.reader({place: await log.port.end(*place) for place in places})
    known: Known = {}
    try:
        news = await _records_of(log, key)
        while True:
            known.update({record.location: (record, event) for record, event in await log.decode_many(news)})
            yield saga_of(key, known.values(), log.choreography)
            news = []
            while not news:
                records = await reader.poll(_CHUNK)
                warn_of_lost(reader, f"the saga of {key!r}")
                news = await _news(log, key, known, records)
    finally:
        await reader.close()


async def _news(log: EventLog, key: str, known: Known, records: list[Record]) -> list[Record]:
    """Return which of these records belong to a saga and are new; with all records of a correlation id that is new to it."""
    stories = {_story(record) for record, _ in known.values()}
    own = [record for record in records if record.key == key.encode() and _story(record) not in stories]
    correlated = [record for record in records if record.correlation_id in stories]
    older = await _correlated(log, own) if own else []
    return [*{r.location: r for r in (*correlated, *own, *older) if r.location not in known}.values()]


async def _records_of(log: EventLog, key: str) -> list[Record]:
    own = await _of_key(log, key)
    correlated = await _correlated(log, own) if own else []
    return [*{record.location: record for record in [*own, *correlated]}.values()]


async def _of_key(log: EventLog, key: str) -> list[Record]:
    wanted = key.encode()
    found = list[Record]()
    for topic in await event_topics_there(log):
        place = topic.name, topic.partition_of(wanted)
        async for records in chunks(log.port, place, await log.port.start(*place)):
            found += [record for record in records if record.key == wanted]
    return found


async def _correlated(log: EventLog, own: list[Record]) -> list[Record]:
    """Return the records that share a correlation id with these, these perhaps included."""
    wanted = {_story(record) for record in own}
    # Nothing of a saga is older than the request that began it, so if all of those are here, the rest is later.
    roots_known = wanted <= {record.event_id for record in own}
    since_ms = min(record.timestamp_ms for record in own) if roots_known else None
    found = list[Record]()
    for topic in await event_topics_there(log):
        for partition in range(topic.partitions):
            place = topic.name, partition
            if since_ms is None:
                first = await log.port.start(*place)
            else:
                first = await log.port.offset_at(*place, since_ms)
            async for records in chunks(log.port, place, first):
                found += [record for record in records if record.correlation_id in wanted]
    return found


def _story(record: Record) -> str:
    return record.correlation_id or record.event_id
