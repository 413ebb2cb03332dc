"""The reruns on a log: the service of each, who began it and why, its progress, and its outcome."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.operations.act import NotThere
from eventlib.operations.reprocessing.metadata import RerunMetadata, metadata_of, switched_tasks
from eventlib.queries.task_clock import positions_of
from eventlib.runtime.records import code_version


@dataclass(frozen=True, slots=True)
class KnownRerun:
    """A rerun on the log.

    `handled` counts the service's transactions that it has followed, out of `of`; `switched` counts the tasks that have
    taken over its states, out of `tasks`.
    """

    name: str
    note: RerunMetadata
    handled: int
    of: int
    switched: int
    tasks: int


class UnknownRerun(NotThere):
    """A service has no rerun of a name."""


async def existing_metadata(log: EventLog, service: Service, name: str) -> RerunMetadata:
    """Return the metadata of a service's rerun. Raises: UnknownRerun."""
    note = await metadata_of(log, name)
    if note is None or note.service != service.name:
        of_this = [each.name for each in await reruns(log, service)]
        there = f"it has {', '.join(of_this)}" if of_this else "it has none"
        raise UnknownRerun(f"{service.name} has no rerun {name!r} on this log ({there}): `eventlib rerun list`")
    return note


async def reruns(log: EventLog, service: Service | None = None) -> list[KnownRerun]:
    """Return the reruns on a log, or those of a service, oldest first."""
    found = list[KnownRerun]()
    for name in _candidates(log, await log.port.topics()):
        note = await metadata_of(log, name)
        if note is not None and (service is None or note.service == service.name):
            found.append(await _progress_of(log, name, note))
    return sorted(found, key=lambda each: each.note.begun_ms)


async def name_of_reset(log: EventLog, service: Service, since_ms: int) -> str:
    """Return the rerun name for a service's reset to a time: that of an unfinished reset, or a new one."""
    prefix, there = f"{service.name}-reset-", await reruns(log, service)
    version = code_version(log.choreography)
    for each in there:
        is_left = each.name.startswith(prefix) and each.switched < each.tasks
        if is_left and (each.note.since_ms, each.note.code_version) == (since_ms, version):
            return each.name
    taken = {each.name for each in there}
    return next(name for number in count(1) if (name := f"{prefix}{number}") not in taken)


async def _progress_of(log: EventLog, name: str, note: RerunMetadata) -> KnownRerun:
    service = log.choreography.service(note.service)
    run, journal = service.under(name), service.journal.name
    handled = of = 0
    there = await log.port.topics()  # of a rerun that just begins, or was interrupted there, some are missing
    is_there = journal in there and run.changelog.name in there
    for partition in range(service.partitions if is_there else 0):
        done, end = (
            (await positions_of(log, run, partition)).next.get(journal, 0),
            await log.port.end(journal, partition),
        )
        # Kafka counts control records in its ends.
        handled += done if await log.port.read(journal, partition, done, 1) else end
        of += end
    return KnownRerun(name, note, handled, of, len(await switched_tasks(log, run)), run.partitions)


def _candidates(log: EventLog, there: Iterable[str]) -> list[str]:
    services = {service.name for service in log.choreography.services}
    names = [topic.removesuffix(".control") for topic in there if topic.endswith(".control")]
    return sorted(name for name in names if name not in services)


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
