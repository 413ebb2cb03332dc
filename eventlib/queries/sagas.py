"""Finds the records of one saga without an index, and orders records of several partitions by cause."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import groupby, pairwise

from eventlib.arguments import check
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.log.record import Record
from eventlib.model.saga import Decoded, Saga, saga_of
from eventlib.queries.decoding import event_topics
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
    places = [(topic.name, partition) for topic in event_topics(log) for partition in range(topic.partitions)]
    reader = log.port.reader({place: await log.port.end(*place) for place in places})
    known: Known = {}
    try:
        news = await _records_of(log, key)
        while True:
            known.update({record.location: (record, event) for record, event in await log.decode_many(news)})
            yield saga_of(key, known.values(), log.choreography)
            news = []
            while not news:
                news = await _news(log, key, known, await reader.poll(_CHUNK))
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
    for topic in event_topics(log):
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
    for topic in event_topics(log):
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


_Place = tuple[int, str, int, int]


def in_order(records: Sequence[Record]) -> list[Record]:
    """Sort by time, and within a millisecond as `causes_first` does; no partition's own order is changed.

    Times that fall within a partition count as the latest before them.
    """
    if records:
        check(records[0], Record, "records[0]", "give records of the log")
    places = _places(records)
    order = sorted(range(len(records)), key=places.__getitem__)
    found = list[Record]()
    for _, of_one in groupby(order, key=lambda i: places[i][0]):
        moment = [records[i] for i in of_one]
        found += [moment[i] for i in causes_first(moment)]
    return found


def causes_first(moment: Sequence[Record], causes: Sequence[str | None] | None = None) -> list[int]:
    """Return in which order records of one millisecond came about, as indexes; as they are given where nothing decides.

    Causes come before what they led to, what a decider has emitted of one key in its sequence, a partition's by offset.
    All are left as they are given when that goes round in a circle, as ids that others gave may do. `causes` are the ids
    of the records' causes, where other ones count than those that they name.
    """
    causes = [record.causation_id for record in moment] if causes is None else causes
    if _are_causes_first(moment, causes):
        return [*range(len(moment))]
    waits_for = [0] * len(moment)
    leads_to: dict[int, list[int]] = {}
    for before, after in _edges(moment, causes):
        waits_for[after] += 1
        leads_to.setdefault(before, []).append(after)
    free = [i for i, waits in enumerate(waits_for) if not waits]
    heapify(free)
    order = list[int]()
    while free:
        i = heappop(free)
        order.append(i)
        for after in leads_to.get(i, ()):
            waits_for[after] -= 1
            if not waits_for[after]:
                heappush(free, after)
    return order if len(order) == len(moment) else [*range(len(moment))]


def _are_causes_first(moment: Sequence[Record], causes: Sequence[str | None]) -> bool:
    """Tell whether nothing has to change places: nearly always, and told without collecting what comes before what."""
    known = {record.id: i for i, record in reversed([*enumerate(moment)])}
    offsets, sequences = dict[TopicPartition, int](), dict[tuple[str, str], int]()
    for i, (record, cause) in enumerate(zip(moment, causes, strict=True)):
        if cause and known.get(cause, i) > i:
            return False
        place = record.topic, record.partition
        if offsets.get(place, -1) > record.offset:
            return False
        offsets[place] = record.offset
        if record.sequence is not None:
            emitter = record.source or "", record.subject or ""
            if sequences.get(emitter, record.sequence) > record.sequence:
                return False
            sequences[emitter] = record.sequence
    return True


def _places(records: Sequence[Record]) -> list[_Place]:
    newest: dict[TopicPartition, int] = {}
    found = list[_Place]()
    for record in records:
        place = record.topic_partition
        at = newest[place] = max(record.timestamp_ms, newest.get(place, 0))
        found.append((at, *record.location))
    return found


def _edges(moment: Sequence[Record], causes: Sequence[str | None]) -> Iterator[tuple[int, int]]:
    """Yield which comes before which, as indexes."""
    known, in_place, emitted = dict[str, int](), dict[TopicPartition, list[int]](), dict[tuple[str, str], list[int]]()
    for i, record in enumerate(moment):
        if record.id is not None:
            known.setdefault(record.id, i)
        in_place.setdefault(record.topic_partition, []).append(i)
        if record.sequence is not None:
            emitted.setdefault((record.source or "", record.subject or ""), []).append(i)
    for i, named in enumerate(causes):
        cause = known.get(named or "")
        if cause is not None:
            yield cause, i
    for found in in_place.values():
        yield from pairwise(sorted(found, key=lambda i: moment[i].offset))
    for found in emitted.values():
        yield from pairwise(sorted(found, key=lambda i: moment[i].sequence or 0))
