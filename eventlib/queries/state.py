"""What a decider knows of a key, read from its service's changelog."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eventlib.codec.base import UnknownSchema
from eventlib.errors import ContractError, UnknownKey
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import A_LOG, check
from eventlib.model.decider import FORGET, Decider
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.keyed_state import KeyedState, entry_of
from eventlib.runtime.records import state_key
from eventlib.values import from_ms

_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class KnownState:
    """A key's newest committed state: None once it is forgotten.

    `sequence` counts the events that the decider has emitted under the key, `changed_by` is the id of the event that last
    changed it. `deadlines` are those still to come by name (UTC), `forgotten_at` is when the key is given up, and
    `answered` counts the requests that were handled.
    """

    service: str
    decider: str
    key: str
    partition: int
    recorded_at: datetime
    state: Any
    sequence: int
    changed_by: str | None
    correlation_id: str | None
    deadlines: dict[str, datetime]
    forgotten_at: datetime | None
    answered: int


async def state_of(log: EventLog, decider_name: str, key: str) -> KnownState:
    """Return what a decider knows of a key, as committed by now.

    Raises: WiringError for an unknown decider; UnknownKey; ContractError when its state cannot be read.
    """
    check(log, EventLog, "log", A_LOG)
    decider = log.choreography.decider(decider_name)
    service = log.choreography.service_of(decider)
    partition, own_key = task_of(service, decider, key)
    record = await newest_of_key(log, service.changelog.name, partition, state_key(decider.name, own_key))
    if record is None:
        raise unknown_key(decider, key)
    return known_state(log, decider, key, await _entry(log, record, decider), from_ms(record.timestamp_ms))


def known_state(log: EventLog, decider: Decider[Any], key: str, entry: KeyedState, recorded_at: datetime) -> KnownState:
    """Return what an entry has about a key."""
    service = log.choreography.service_of(decider)
    due = {name: from_ms(at_ms) for name, at_ms in sorted(entry.due.items(), key=lambda item: item[1])}
    return KnownState(
        service.name,
        decider.name,
        key,
        task_of(service, decider, key)[0],
        recorded_at,
        entry.state,
        entry.sequence,
        entry.changed_by,
        entry.correlation_id,
        {name: at for name, at in due.items() if name != FORGET},
        due.get(FORGET),
        entry.memory.answered_count,
    )


def unknown_key(decider: Decider[Any], key: str) -> UnknownKey:
    """Return the error that a decider knows nothing of a key."""
    return UnknownKey(
        f"decider {decider.name} knows nothing of key {key!r}: check the key ({decider.key}), and that the "
        f"services have run"
    )


def task_of(service: Service, decider: Decider[Any], key: str) -> tuple[int, str]:
    """Return the task that has a key, and the key as the task has it.

    A decider without keys has one state for each task: that is named by the partition's number.
    Raises: ContractError when it is not.
    """
    if decider.key is not None:
        return partition_of(service, key), key
    if not key.isdecimal() or int(key) >= service.partitions:
        raise ContractError(
            f"decider {decider.name} has no keys, but one state for each partition: give a partition's number, from 0 "
            f"to {service.partitions - 1}"
        )
    return int(key), ""


def partition_of(service: Service, key: str) -> int:
    """Return the task of a service that handles a key."""
    return service.inputs[0].partition_of(key.encode())


async def newest_of_key(
    log: EventLog, topic: str, partition: int, key: str, before: int | None = None, since_ms: int | None = None
) -> Record | None:
    """Return the newest record of a key, looking from the end, or from before an offset, backwards, at most to a time."""
    return (await newest_of_keys(log, topic, partition, [key], before, since_ms)).get(key)


async def newest_of_keys(
    log: EventLog,
    topic: str,
    partition: int,
    keys: Iterable[str],
    before: int | None = None,
    since_ms: int | None = None,
) -> dict[str, Record]:
    """Return the newest record of each of these keys that has one, looking backwards as `newest_of_key` does, once for all."""
    wanted, found = {key.encode() for key in keys}, dict[str, Record]()
    start = await log.port.start(topic, partition)
    start = start if since_ms is None else await log.port.offset_at(topic, partition, since_ms)
    high = await log.port.end(topic, partition) if before is None else before
    while wanted and high > start:
        low = max(start, high - _CHUNK)
        for record in reversed(await log.port.read(topic, partition, low, high - low)):
            if record.key in wanted and record.offset < high:
                wanted.remove(record.key)
                found[record.key.decode()] = record
        high = low
    return found


async def _entry(log: EventLog, record: Record, decider: Decider[Any]) -> KeyedState:
    try:
        return await log.codec.known(lambda: entry_of(record, decider, log.codec))
    except UnknownSchema as error:
        raise ContractError(f"the state of {decider.name} cannot be read: {error}") from error
