"""What was recorded before a service's first start. Events that follow from it are marked, and effects for it parked.

A service that is added to an old log handles all of its history, and should not send last year's mails. The mark goes
from each event to those that follow from it, through all services, so that no detour makes the past new.
"""

from collections.abc import Sequence
from typing import NamedTuple

from eventlib.log.base import Log
from eventlib.model.service import Service
from eventlib.runtime.records import Positions

MARK = "past_of"
"""The header of an event that follows from the history of the service that it names."""

Headers = tuple[tuple[str, bytes], ...]


class InputStart(NamedTuple):
    """The first offset that a task reads of a topic; records before `past_end` are history."""

    topic: str
    first: int
    past_end: int


async def beginnings(log: Log, service: Service, partition: int, positions: Positions) -> Sequence[InputStart]:
    """Return the start of each topic that the task has not read before."""
    found = list[InputStart]()
    for topic in (*service.inputs, service.control):
        if topic.name in positions.next:
            continue
        start, end = await log.start(topic.name, partition), await log.end(topic.name, partition)
        if topic == service.control:
            found.append(InputStart(topic.name, start, start))
        else:
            found.append(InputStart(topic.name, end if service.start_from == "latest" else start, end))
    return found


def mark_of(service: str) -> Headers:
    """Return the header of events that follow from a service's history."""
    return ((MARK, service.encode()),)


def past_of(headers: Headers) -> Headers:
    """Return this header of a record, if it has it."""
    return tuple(header for header in headers if header[0] == MARK)[:1]


def reason_of(mark: Headers) -> str:
    """Return why an effect of historical events is parked, and what lets it run."""
    service = mark[0][1].decode("utf-8", "backslashreplace")
    return (
        f"it follows from what was recorded before the first start of service {service}: retry it to let it run; "
        'effects="all" on a new service lets all of them run'
    )
