"""The past of a service: records from before its first start. Events that follow from it are marked, and its effects parked.

A service that is added to an old log handles all of its history, and should not send last year's mails. The mark goes
from each event to those that follow from it, through all services, so that no detour makes the past new.
The services that are the first to run on a log have no past: their effects run for what was published before them.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from eventlib.errors import ContractError, LogDenied
from eventlib.eventlog import EventLog
from eventlib.model.service import Service
from eventlib.runtime.records import JournalEntry, Positions

MARK = "past_of"
"""The header of an event that follows from the history of the service that it names."""

NO_PAST = "no past"
"""The detail of the step `begin` of a task that has no past."""

OF_PAST = "it follows from what was recorded before the first start of service "
"""How the reason begins for which an effect of the past is parked."""

_FIRST = "first services: "
_JOURNAL = ".journal"

Headers = tuple[tuple[str, bytes], ...]


class InputStart(NamedTuple):
    """The first offset that a task reads of a topic; records before `past_end` are history.

    `detail` is that of the step `begin`: `NO_PAST`, or the first services of the log, or nothing.
    """

    topic: str
    first: int
    past_end: int
    detail: str = ""


class FirstServices:
    """The services that are the first to run on a log: those of the application that a task of it began with.

    They are in the step `begin` of each task's control topic, so that one that begins later, in another process or
    after a year, finds them. Guarantee: a service that may have been added to a log where others ran is not one of them.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._names: frozenset[str] | None = None
        self._lock = asyncio.Lock()

    async def names(self) -> frozenset[str]:
        """Return their names; none when what ran first on the log is not known."""
        async with self._lock:
            if self._names is None:
                self._names = await self._found()
        return self._names

    async def _found(self) -> frozenset[str]:
        port, own = self._log.port, self._log.choreography.services
        topics = await port.topics()
        journals = {name: topic for name, topic in topics.items() if name.endswith(_JOURNAL)}
        journals |= {service.journal.name: service.journal for service in own}  # hidden ones are in no list
        try:
            for name, topic in journals.items():
                for partition in range(topic.partitions):
                    if (found := await self._named_in(name, partition)) is not None:
                        return found
        except (LogDenied, ContractError):
            return frozenset()  # this process may not see what others have done, or cannot read it
        return frozenset(service.name for service in own)

    async def _named_in(self, journal: str, partition: int) -> frozenset[str] | None:
        """Return the services that a task's journal names; None if the task has not begun."""
        port, codec = self._log.port, self._log.codec
        try:
            records = await port.read(journal, partition, await port.start(journal, partition), 1)
        except ContractError:
            return None  # the topic does not exist
        if not records:
            return frozenset() if await port.log_start(journal, partition) else None
        entry = await codec.decode_now(partial(codec.decode, JournalEntry, records[0].value or b""))
        texts = [step.detail for step in entry.steps if step.kind == "begin" and step.detail.startswith(_FIRST)]
        return frozenset(texts[0].removeprefix(_FIRST).split()) if texts else frozenset()


async def beginnings(
    log: EventLog, first_services: FirstServices, service: Service, partition: int, positions: Positions
) -> Sequence[InputStart]:
    """Return the start of each topic that the task has not read before."""
    new = [topic.name for topic in service.inputs if topic.name not in positions.next]
    starts = [
        InputStart(name, await log.port.start(name, partition), await log.port.end(name, partition)) for name in new
    ]
    names = await first_services.names() if not positions.next else frozenset[str]()
    if service.start_from == "latest":
        starts = [start._replace(first=start.past_end) for start in starts]
    if service.name in names and not [start for start in starts if await _has_past(log, names, start, partition)]:
        starts = [start._replace(past_end=start.first, detail=NO_PAST) for start in starts]
    control = service.control.name
    if control not in positions.next:
        start = await log.port.start(control, partition)
        starts.append(InputStart(control, start, start, f"{_FIRST}{' '.join(sorted(names))}" if names else ""))
    return starts


async def _has_past(log: EventLog, first_services: frozenset[str], start: InputStart, partition: int) -> bool:
    """Tell whether a topic has records that another application wrote, or that a later service has emitted."""
    records = await log.port.read(start.topic, partition, start.first, 1) if start.first < start.past_end else []
    if start.topic in log.external.topics:
        return bool(records)
    sources = [(record.source or "").partition("/") for record in records]
    return any(slash and service not in first_services for service, slash, _ in sources)


def mark_of(service: str) -> Headers:
    """Return the header of events that follow from a service's history."""
    return ((MARK, service.encode()),)


def past_of(headers: Headers) -> Headers:
    """Return this header of a record, if it has it."""
    return tuple(header for header in headers if header[0] == MARK)[:1]


def reason_of(mark: Headers) -> str:
    """Return why an effect of historical events is parked, and what lets it run."""
    service = mark[0][1].decode("utf-8", "backslashreplace")
    return f'{OF_PAST}{service}: retry it to let it run; effects="all" on a new service lets all of them run'


def is_of_past(reason: str) -> bool:
    """Return whether an effect is parked for this rule, and not since it failed."""
    return reason.startswith(OF_PAST)
