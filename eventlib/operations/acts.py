"""What people did to running services, by whom and why: an audit trail from what is on the log."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.model.event import Event, contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.operations.reprocessing.listing import reruns
from eventlib.publication import Signature
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime.parking.control import (
    REQUESTS,
    ParkedInputDiscarded,
    ParkedInputEdited,
    ParkedRetryRequested,
    PauseRequested,
    Request,
    ResumeRequested,
    request_in,
)
from eventlib.runtime.records import JournalEntry, TaskClock

ON_PURPOSE = "skip", "reset", "switch", "clock"
"""The kinds of steps of a journal that an operator is behind."""
_REQUESTS = frozenset(wire_name_of(each) for each in REQUESTS)
_NAMES: dict[type[Request], str] = {
    ParkedRetryRequested: "retry",
    ParkedInputEdited: "edit",
    ParkedInputDiscarded: "discard",
    PauseRequested: "pause",
    ResumeRequested: "resume",
}


@dataclass(frozen=True, slots=True)
class Act:
    """An act on a service: what, about what (a decider's key, an event, or a rerun), by whom, why, and when.

    Of an event that was sent, `service` are those that handle it, and `about` its type and key.
    `at_ms` of what a task did while a wrong clock had set its time ahead is just before an operator reset it.
    `by` is `os:USER` for the user of a machine, `token:NAME`, `oidc:SUBJECT` or `certificate:SUBJECT`; of acts before
    identities were recorded, the name that was given.
    """

    at_ms: int
    what: str
    service: str
    about: str
    by: str
    reason: str


Named = tuple[str, Act]
"""An act, under a name that makes it one: it may be on several tasks, or be sent again under one idempotency key."""


async def acts(log: EventLog, since_ms: int = 0) -> list[Act]:
    """Return the acts on a log since a time (ms since 1970), oldest first.

    Cost: the control topics, the journals and the events since then. Raises: LogUnavailable and the like.
    """
    found = dict[str, Act]()
    async for name, act in _named(log, since_ms):
        if name not in found or act.at_ms < found[name].at_ms:
            found[name] = act
    return sorted([*found.values(), *await begun_reruns(log, since_ms)], key=lambda act: act.at_ms)


async def _named(log: EventLog, since_ms: int) -> AsyncIterator[Named]:
    for service in log.choreography.services:
        async for record in _records(log, service.control.name, range(service.partitions), since_ms):
            if is_request(record):
                yield of_request(service, record, await request_in(record, log.codec))
        for partition in range(service.partitions):
            async for named in _of_journal(log, service, partition, since_ms):
                yield named
    services = handlers_of(log)
    for topic in sent_topics(log):
        async for record in _records(log, topic.name, range(topic.partitions), since_ms):
            for named in of_event(services, record):
                yield named


async def _of_journal(log: EventLog, service: Service, partition: int, since_ms: int) -> AsyncIterator[Named]:
    """Yield what a task did on purpose, by the clock that its journal has at its end."""
    found, clock = list[Named](), TaskClock()
    async for record in _records(log, service.journal.name, [partition], since_ms):
        entry = log.codec.decode(JournalEntry, record.value or b"")
        found += of_entry(service, entry)
        clock = clock.after(entry)
    for name, act in found:
        at_ms = clock.order_ms(act.at_ms)
        if at_ms >= since_ms:
            yield name, replace(act, at_ms=at_ms)


async def begun_reruns(log: EventLog, since_ms: int) -> list[Act]:
    """Return the reruns that were begun since a time."""
    notes = [(rerun.name, rerun.note) for rerun in await reruns(log)]
    return [
        Act(note.begun_ms, "rerun", note.service, name, *_signed(note.why))
        for name, note in notes
        if note.begun_ms >= since_ms
    ]


def is_request(record: Record) -> bool:
    """Return whether a record of a control topic is a request about what is parked or paused."""
    return (record.type or wire_name_of(ParkedRetryRequested)) in _REQUESTS


def of_request(service: Service, record: Record, request: Request) -> Named:
    """Return a request about what is parked or paused; one to several tasks has one name."""
    name, about = repr(record.location), f"{request.decider} {request.key}"
    if isinstance(request, PauseRequested | ResumeRequested):
        name, about = record.correlation_id or name, str(PauseTarget.about(service.name, request))
    return name, Act(record.timestamp_ms, _NAMES[type(request)], service.name, about, request.by, request.reason)


def of_entry(service: Service, entry: JournalEntry) -> Iterator[Named]:
    """Yield what a task did on purpose."""
    for step in entry.steps:
        if step.kind in ON_PURPOSE:
            about = f"event {step.request}" if step.request else ""
            name = repr((service.name, step.kind, step.detail, step.request))
            yield name, Act(entry.at_ms, step.kind, service.name, about, *_signed(step.detail))


def of_event(services: Mapping[str, str], record: Record) -> Iterator[Named]:
    """Yield an event that was sent by hand."""
    signature = Signature.of(record) if record.headers else None
    if signature is not None:
        about, handled_by = f"{record.type} {key_text(record)}", services.get(record.type or "", "")
        yield record.event_id, Act(record.timestamp_ms, "send", handled_by, about, signature.by, signature.reason)


def sent_topics(log: EventLog) -> set[Topic]:
    """Return the topics that have events which can be sent by hand."""
    return {contract_of(event).topic for event in _own(log)}


def handlers_of(log: EventLog) -> dict[str, str]:
    """Return the names of the services that handle each type of event."""
    every = log.choreography.services
    return {
        contract_of(event).type: ", ".join(each.name for each in every if event in each.handles) for event in _own(log)
    }


def _own(log: EventLog) -> list[type[Event]]:
    return [event for event in log.choreography.events if contract_of(event).external is None]


async def _records(log: EventLog, topic: str, partitions: Iterable[int], since_ms: int) -> AsyncIterator[Record]:
    if topic not in await log.port.topics():
        return
    for partition in partitions:
        place: TopicPartition = (topic, partition)
        first = await log.port.offset_at(*place, since_ms) if since_ms else await log.port.start(*place)
        async for records in chunks(log.port, place, first):
            for record in records:
                if record.timestamp_ms >= since_ms:
                    yield record


def _signed(why: str) -> tuple[str, str]:
    """Return who and why of a signed reason."""
    by, _, reason = why.partition(": ")
    return by, reason
