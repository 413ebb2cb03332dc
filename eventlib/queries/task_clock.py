"""The clocks of tasks whose time an operator has reset: what every reader of several tasks orders by."""

from collections.abc import Iterable, Mapping

from eventlib.eventlog import EventLog
from eventlib.log.reading import SkippingReader
from eventlib.model.service import Service
from eventlib.queries.state import newest_of_key
from eventlib.runtime.records import POSITION_KEY, Positions, TaskClock


async def clocks_of(log: EventLog, tasks: Iterable[tuple[Service, int]]) -> Mapping[tuple[str, int], TaskClock]:
    """Return the clocks of those of these tasks that were ever reset, by service and partition."""
    readable = EventLog(SkippingReader(log.port), log.codec, log.choreography)
    there, found = await log.port.topics(), dict[tuple[str, int], TaskClock]()
    for service, partition in tasks:
        if service.changelog.name in there:
            clock = (await positions_of(readable, service, partition)).clock
            if clock.resets:
                found[service.name, partition] = clock
    return found


async def positions_of(log: EventLog, service: Service, partition: int) -> Positions:
    """Return a task's committed positions; empty when it never ran."""
    record = await newest_of_key(log, service.changelog.name, partition, POSITION_KEY)
    if record is None:
        return Positions()
    value = record.value or b""
    return await log.codec.known(lambda: log.codec.decode(Positions, value))
