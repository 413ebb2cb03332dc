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
    known = await readable_positions(log, tasks)
    return {task: positions.clock for task, positions in known.items() if positions.clock.resets}


async def readable_positions(
    log: EventLog, tasks: Iterable[tuple[Service, int]]
) -> Mapping[tuple[str, int], Positions]:
    """Return the newest positions of tasks that can be read, by service and partition: damaged ones stop no reader."""
    readable, there = EventLog(SkippingReader(log.port), log.codec, log.choreography), await log.port.topics()
    return {
        (service.name, partition): await _readable(readable, service, partition)
        for service, partition in tasks
        if service.changelog.name in there
    }


async def _readable(log: EventLog, service: Service, partition: int) -> Positions:
    offset: int | None = None
    while record := await newest_of_key(log, service.changelog.name, partition, POSITION_KEY, offset):
        try:
            return await decoded(log, Positions, record)
        except ContractError:
            offset = record.offset
    return Positions()


async def positions_of(log: EventLog, service: Service, partition: int) -> Positions:
    """Return a task's committed positions; empty when it never ran."""
    record = await newest_of_key(log, service.changelog.name, partition, POSITION_KEY)
    return Positions() if record is None else await decoded(log, Positions, record)
