"""The clocks of tasks whose time an operator has reset: what every reader of several tasks orders by."""

from collections.abc import Iterable, Mapping

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.reading import SkippingReader
from eventlib.model.service import Service
from eventlib.queries.state import newest_of_key
from eventlib.queries.task_metadata import decoded
from eventlib.runtime.records import POSITION_KEY, Positions, TaskClock


async def clocks_of(log: EventLog, tasks: Iterable[tuple[Service, int]]) -> Mapping[tuple[str, int], TaskClock]:
    """Return the clocks of those of these tasks that were ever reset, by service and partition."""
    readable = EventLog(SkippingReader(log.port), log.codec, log.choreography)
    there, found = await log.port.topics(), dict[tuple[str, int], TaskClock]()
    for service, partition in tasks:
        if service.changelog.name in there:
            clock = await _readable_clock(readable, service, partition)
            if clock.resets:
                found[service.name, partition] = clock
    return found


async def _readable_clock(log: EventLog, service: Service, partition: int) -> TaskClock:
    """Return a task's clock by the newest of its positions that can be read: damaged ones stop no reader."""
    offset: int | None = None
    while record := await newest_of_key(log, service.changelog.name, partition, POSITION_KEY, offset):
        try:
            return (await decoded(log, Positions, record)).clock
        except ContractError:
            offset = record.offset
    return TaskClock()


async def positions_of(log: EventLog, service: Service, partition: int) -> Positions:
    """Return a task's committed positions; empty when it never ran."""
    record = await newest_of_key(log, service.changelog.name, partition, POSITION_KEY)
    return Positions() if record is None else await decoded(log, Positions, record)
