"""Decodes a sample of what really stands on a log with today's code."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field

from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.contracts.declared import Declared
from eventlib.contracts.problem import Problem
from eventlib.errors import EventlibError, UndecodableRecord
from eventlib.eventlog import EventLog
from eventlib.log.reading import chunks
from eventlib.model.record import Record
from eventlib.runtime.records import state_key

_SPANS = 5


@dataclass(slots=True)
class Sampled:
    """How many records were decoded, and what could not be; of each schema's records the first is shown in full."""

    decoded: int = 0
    problems: list[Problem] = field(default_factory=list)
    _told: set[tuple[str, bytes]] = field(default_factory=set)

    def failed(self, name: str, kind: str, record: Record, why: str) -> None:
        """Take note of a record that could not be decoded."""
        schema = name, (record.value or b"")[:HEADER_BYTES]
        if schema not in self._told:
            self._told.add(schema)
            place = f"{record.topic}/{record.partition}/{record.offset}"
            remedy = f"let today's code read it: a default, an alias, or @upcasts({name}, version=…)"
            self.problems.append(Problem(name, kind, place, "", "UNDECODABLE", why, remedy))


async def sampled(log: EventLog, every: Iterable[Declared], most: int) -> Sampled:
    """Decode up to `most` records of each partition: spread over the events', the newest of the states'."""
    found = Sampled()
    there = await log.port.topics()
    events = {each.name: each for each in every if each.kind == "event"}
    for topic in dict.fromkeys(each.topic for each in events.values() if each.topic in there):
        for partition in range(there[topic].partitions):
            async for record in _spread(log, topic, partition, most):
                if record.type in events:
                    await _event(log, record, found)
    for each in every:
        if each.kind == "state" and each.topic in there:
            for partition in range(there[each.topic].partitions):
                await _states(log, each, partition, most, found)
    return found


async def stale(log: EventLog, each: Declared, headers: Mapping[bytes, str]) -> int:
    """Return how many keys have a newest state that begins with one of these headers."""
    count = 0
    prefixes = _prefixes(log, each)
    for partition in range((await log.port.topics())[each.topic].partitions):
        keys = set[bytes | None]()
        place = each.topic, partition
        async for records in chunks(log.port, place, await log.port.start(*place)):
            for record in records:
                if (record.key or b"").startswith(prefixes):
                    (keys.add if (record.value or b"")[:HEADER_BYTES] in headers else keys.discard)(record.key)
        count += len(keys)
    return count


async def _event(log: EventLog, record: Record, found: Sampled) -> None:
    try:
        await log.decode_now(record)
        found.decoded += 1
    except UndecodableRecord as error:
        found.failed(record.type or "", "event", record, error.reason)


async def _states(log: EventLog, each: Declared, partition: int, most: int, found: Sampled) -> None:
    prefixes = _prefixes(log, each)
    start, end = await log.port.start(each.topic, partition), await log.port.end(each.topic, partition)
    records = await log.port.read(each.topic, partition, max(start, end - most), most)
    newest = {record.key: record for record in records if (record.key or b"").startswith(prefixes)}
    for record in newest.values():
        if not record.value:
            continue
        value = record.value
        try:
            await log.codec.known(lambda value=value: log.codec.decode(each.cls, value))  # type: ignore[misc]  # bound at once
            found.decoded += 1
        except EventlibError as error:
            found.failed(each.name, "state", record, str(error))


def _prefixes(log: EventLog, each: Declared) -> tuple[bytes, ...]:
    deciders = [decider for decider in log.choreography.deciders if decider.state is each.cls]
    return tuple(state_key(decider.name, "").encode() for decider in deciders)


async def _spread(log: EventLog, topic: str, partition: int, most: int) -> AsyncIterator[Record]:
    """Yield records of a partition: its first ones, its last ones, and some in between."""
    start, end = await log.port.start(topic, partition), await log.port.end(topic, partition)
    size = -(-most // _SPANS)
    at = start
    for span in range(_SPANS):
        at = max(at, start + (end - size - start) * span // (_SPANS - 1))
        if at >= end:
            return
        for record in await log.port.read(topic, partition, at, size):
            at = record.offset + 1
            yield record
