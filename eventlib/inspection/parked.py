"""What a choreography's services could not handle: which keys and effects are parked, why, what waits; and again."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex

from eventlib.codec.port import UnknownSchema
from eventlib.errors import ContractError
from eventlib.event import Position
from eventlib.eventlog import EventLog
from eventlib.identity import root_traceparent
from eventlib.inspection.decoding import Reading, RecordReader
from eventlib.inspection.state import partition_of
from eventlib.log.port import Record, key_text
from eventlib.runtime.control import ParkedRetryRequested
from eventlib.runtime.parking import is_waiting, original_of
from eventlib.runtime.records import EFFECT, PARKED, ParkedKey
from eventlib.service import Service
from eventlib.times import from_ms, now_ms

_CHUNK = 2_000


@dataclass(frozen=True, slots=True)
class Parking:
    """A key whose inputs wait for a person, or an effect that does (`effect` is its request's type, `id` its id).

    `waiting` counts the inputs, `first` is the offset of the oldest one in the service's parked topic.
    """

    service: str
    decider: str
    key: str
    partition: int
    since: datetime
    waiting: int
    reason: str
    first: int = 0
    effect: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingInput:
    """One input that waits behind a parked key: where it came from, why it waits, and what is in it.

    `record` is the input as it stood on its topic; a deadline has no topic.
    """

    record: Record
    reason: str
    reading: Reading


async def parkings(log: EventLog, keys: Collection[str] | None = None) -> list[Parking]:
    """Return everything that is parked, or what is parked under these keys; the oldest first."""
    found = list[Parking]()
    for service in log.choreography.services:
        own = range(service.partitions)
        for partition in own if keys is None else sorted({partition_of(service, key) for key in keys}):
            for record in await _newest(log, service, partition):
                parking = await _parking(log, service, record)
                if keys is None or parking.key in keys:
                    found.append(parking)
    return sorted(found, key=lambda parking: (parking.since, parking.service, parking.decider, parking.key))


async def waiting_inputs(log: EventLog, parking: Parking) -> list[WaitingInput]:
    """Return the inputs that wait behind a parked key in order; for a parked effect, its request."""
    service = log.choreography.service(parking.service)
    reader = RecordReader(log)
    if parking.id is not None:
        changes = await _newest(log, service, parking.partition)
        requests = [record for record in changes if record.event_id == parking.id]
        return [WaitingInput(r.record, parking.reason, r) for r in await reader.read(requests)]
    found = list[WaitingInput]()
    async for records in _chunks(log, service.parked.name, parking.partition, parking.first):
        kept = [record for record in records if is_waiting(record, parking.decider, parking.key)]
        for reading in await reader.read(kept):
            facts, record = original_of(reading.record)
            found.append(WaitingInput(record, facts.get("reason", ""), reading))
    return found


async def request_retry(log: EventLog, parking: Parking, by: str) -> Position:
    """Ask the parking's service to handle it again, in order; it does so as soon as it runs.

    Guarantee: each request is handled once; one about something that is not parked any more changes nothing.
    """
    service = log.choreography.service(parking.service)
    request = ParkedRetryRequested(parking.decider, parking.id or parking.key, by)
    await log.codec.prepare([(service.control.name, ParkedRetryRequested)])
    event_id, now = token_hex(16), now_ms()
    record = Record(
        topic=service.control.name,
        partition=parking.partition,
        offset=-1,
        timestamp_ms=now,
        key=parking.key.encode(),
        value=log.codec.encode(request),
        id=event_id,
        type=ParkedRetryRequested.__name__,
        source="outside",
        subject=parking.key,
        correlation_id=event_id,
        traceparent=root_traceparent(event_id),
    )
    (offset,) = await log.port.append([record])
    return Position(record.topic, record.partition, offset, from_ms(now))


async def _newest(log: EventLog, service: Service, partition: int) -> list[Record]:
    """Return the newest record of each parked key and parked effect on a changelog."""
    newest: dict[bytes, Record] = {}
    prefixes = (PARKED.encode(), EFFECT.encode())
    async for records in _chunks(log, service.changelog.name, partition, 0):
        for record in records:
            key = record.key
            if key is None or not key.startswith(prefixes):
                continue
            if record.value is None or (key.startswith(prefixes[1]) and not _stall_reason(record)):
                newest.pop(key, None)
            else:
                newest[key] = record
    return list(newest.values())


async def _parking(log: EventLog, service: Service, record: Record) -> Parking:
    place = record.partition
    if key_text(record).startswith(EFFECT):
        return Parking(
            service.name,
            (record.source or "").partition("/")[2],
            record.subject or "",
            place,
            from_ms(record.timestamp_ms),
            1,
            _stall_reason(record),
            effect=record.type,
            id=record.event_id,
        )
    parked = await _decoded(log, record)
    since = from_ms(parked.since_ms)
    return Parking(service.name, parked.decider, parked.key, place, since, parked.count, parked.reason, parked.first)


async def _decoded(log: EventLog, record: Record) -> ParkedKey:
    try:
        return await log.codec.known(lambda: log.codec.decode(ParkedKey, record.value or b""))
    except UnknownSchema as error:
        raise ContractError(f"a note about a parked key cannot be read: {error}") from error


async def _chunks(log: EventLog, topic: str, partition: int, first: int) -> AsyncIterator[list[Record]]:
    offset = max(first, await log.port.start(topic, partition))
    while records := await log.port.read(topic, partition, offset, _CHUNK):
        offset = records[-1].offset + 1
        yield records


def _stall_reason(record: Record) -> str:
    return next((value.decode() for name, value in record.headers if name == "parked_reason"), "")
