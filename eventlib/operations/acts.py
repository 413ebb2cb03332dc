"""What people did to running services, by whom and why: an audit trail from what is on the log."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from eventlib.eventlog import EventLog, Signature
from eventlib.log.base import TopicPartition
from eventlib.log.reading import chunks
from eventlib.log.record import Record, key_text
from eventlib.model.event import Event, contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.service import Service
from eventlib.operations.reprocessing.metadata import reruns
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
from eventlib.runtime.records import JournalEntry

_ON_PURPOSE = frozenset({"skip", "reset", "switch"})
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
    `by` is `os:USER` for the user of a machine, `token:NAME`, `oidc:SUBJECT` or `certificate:SUBJECT`; of acts before
    identities were recorded, the name that was given.
    """

    at_ms: int
    what: str
    service: str
    about: str
    by: str
    reason: str


async def acts(log: EventLog, since_ms: int = 0) -> list[Act]:
    """Return the acts on a log since a time (ms since 1970), oldest first.

    Cost: the control topics, the journals and the events since then. Raises: LogUnavailable and the like.
    """
    found = list[Act]()
    for service in log.choreography.services:
        found += [act async for act in _requests(log, service, since_ms)]
        found += [act async for act in _steps(log, service, since_ms)]
    found += [act async for act in _sent(log, since_ms)]
    for rerun in await reruns(log):
        note = rerun.note
        if note.begun_ms >= since_ms:
            found.append(Act(note.begun_ms, "rerun", note.service, rerun.name, *_signed(note.why)))
    return sorted(found, key=lambda act: act.at_ms)


async def _requests(log: EventLog, service: Service, since_ms: int) -> AsyncIterator[Act]:
    """Yield the requests about what is parked or paused; one to several tasks once."""
    seen = set[str]()
    async for record in _records(log, service.control.name, service.partitions, since_ms):
        if (record.type or wire_name_of(ParkedRetryRequested)) in _REQUESTS:
            request = await request_in(record, log.codec)
            about = f"{request.decider} {request.key}"
            if isinstance(request, PauseRequested | ResumeRequested):
                if record.correlation_id in seen:
                    continue
                seen.add(record.correlation_id or "")
                about = str(PauseTarget.about(service.name, request))
            yield Act(record.timestamp_ms, _NAMES[type(request)], service.name, about, request.by, request.reason)


async def _steps(log: EventLog, service: Service, since_ms: int) -> AsyncIterator[Act]:
    """Yield what tasks did on purpose; one act on several tasks once, at its first."""
    seen = set[tuple[str, str, str]]()
    async for record in _records(log, service.journal.name, service.partitions, since_ms):
        entry = log.codec.decode(JournalEntry, record.value or b"")
        for step in entry.steps:
            act = step.kind, step.detail, step.request
            if step.kind in _ON_PURPOSE and act not in seen:
                seen.add(act)
                about = f"event {step.request}" if step.request else ""
                yield Act(entry.at_ms, step.kind, service.name, about, *_signed(step.detail))


async def _sent(log: EventLog, since_ms: int) -> AsyncIterator[Act]:
    """Yield the events that were sent by hand; an event that was sent again under one idempotency key once."""
    ours = [event for event in log.choreography.events if contract_of(event).external is None]
    services = {contract_of(event).type: _handlers(log, event) for event in ours}
    seen = set[str]()
    for topic in {contract_of(event).topic for event in ours}:
        async for record in _records(log, topic.name, topic.partitions, since_ms):
            signature = Signature.of(record) if record.headers else None
            if signature is not None and record.event_id not in seen:
                seen.add(record.event_id)
                about = f"{record.type} {key_text(record)}"
                handled_by = services.get(record.type or "", "")
                yield Act(record.timestamp_ms, "send", handled_by, about, signature.by, signature.reason)


def _handlers(log: EventLog, event: type[Event]) -> str:
    return ", ".join(each.name for each in log.choreography.services if event in each.handles)


async def _records(log: EventLog, topic: str, partitions: int, since_ms: int) -> AsyncIterator[Record]:
    if topic not in await log.port.topics():
        return
    for partition in range(partitions):
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
