"""Deletes a rerun, and says before what that would delete."""

from collections.abc import Mapping

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.operations.reprocessing.listing import existing_metadata
from eventlib.operations.reprocessing.metadata import switched_tasks


async def droppable(log: EventLog, service: Service, name: str) -> Mapping[str, int]:
    """Return the topics that deleting a rerun deletes, and how many offsets each has used. Raises: ContractError when it is in use, or was."""
    there = await _topics_of(log, service, name)
    return {each: sum([await log.port.end(each, p) for p in range(there[each].partitions)]) for each in sorted(there)}


async def _topics_of(log: EventLog, service: Service, name: str) -> Mapping[str, Topic]:
    await existing_metadata(log, service, name)
    run = service.under(name)
    switched = await switched_tasks(log, run)
    if switched:
        raise ContractError(
            f"{service.name} has taken over the states of {name} ({len(switched)} of {run.partitions} tasks): the history "
            "needs it, so it stays"
        )
    return {each: topic for each, topic in (await log.port.topics()).items() if each.startswith(f"{name}.")}


async def drop(log: EventLog, service: Service, name: str) -> None:
    """Delete a rerun, with all its outputs. Raises: as `droppable` does."""
    there = await _topics_of(log, service, name)
    run = service.under(name)
    for partition in range(run.partitions):
        await log.port.seize(name, partition)  # stops a process that still runs it
    # The metadata goes last: what an interruption leaves can be dropped again.
    await log.port.delete_topics(each for each in there if each != run.control.name)
    await log.port.delete_topics([run.control.name])
