"""What people did to running services, by whom and why, as the records of a log have it."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.model.event import Event, contract_of
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record, key_text
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.publication import Signature
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime.parking.control import (
    BULK,
    REQUESTS,
    ParkedInputDiscarded,
    ParkedInputEdited,
    ParkedRetryRequested,
    PauseRequested,
    Request,
    ResumeRequested,
)
from eventlib.runtime.records import JournalEntry, TaskClock

_ON_PURPOSE = "skip", "reset", "switch", "clock"
"""The kinds of steps of a journal that an operator is behind."""
_REQUESTS = frozenset(wire_name_of(each) for each in REQUESTS)
_NAMES: dict[type[Request], str] = {
    ParkedRetryRequested: "retry",
    ParkedInputEdited: "edit",
    ParkedInputDiscarded: "discard",
    PauseRequested: "pause",
    ResumeRequested: "resume",
}
_PUT = """
INSERT INTO _acts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms WHERE excluded.at_ms < at_ms
"""
_RESET = f"""
UPDATE _acts SET at_ms = ? WHERE service = ? AND at_ms BETWEEN ? AND ? AND what IN ({", ".join(map(repr, _ON_PURPOSE))})
"""  # noqa: S608  names of this package


@dataclass(frozen=True, slots=True)
class Act:
    """An act on a service: what, about what (a decider's key, an event, or a rerun), by whom, why, and when.

    Of an event that was sent, `service` are those that handle it, and `about` its type and key.
    `at_ms` of what a task did while a wrong clock had set its time ahead is just before an operator reset it.
    `by` is `os:USER` for the user of a machine, `token:NAME`, `oidc:SUBJECT` or `certificate:SUBJECT`; of acts before
    identities were recorded, the name that was given. Acts about many of what is parked share the name `bulk`, and `cause` is
    the cause of them all if there is one.
    """

    at_ms: int
    what: str
    service: str
    about: str
    by: str
    reason: str
    bulk: str = ""
    cause: str = ""


Named = tuple[str, Act]
"""An act, under a name that makes it one: it may be on several tasks, or be sent again under one idempotency key."""


class ActFold:
    """Writes the table of acts, but for reruns, which the log has notes of. `services` are those of control topics and journals."""

    def __init__(self, log: EventLog) -> None:
        self.services = {
            topic.name: service for service in log.choreography.services for topic in (service.control, service.journal)
        }
        self._handlers = handlers_of(log)

    def apply(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        """Write what one record means."""
        for first_ms, last_ms, at_ms in TaskClock().after(value).resets if isinstance(value, JournalEntry) else ():
            db.execute(_RESET, (at_ms - 1, self.services[record.topic].name, first_ms, last_ms))
        for name, act in self._named(record, value):
            db.execute(_PUT, (name, *astuple(act)))

    def _named(self, record: Record, value: Any) -> Iterable[Named]:
        service = self.services.get(record.topic)
        if service is None:
            return of_event(self._handlers, record)
        if isinstance(value, JournalEntry):
            return of_entry(service, value)
        return [of_request(service, record, value)] if isinstance(value, REQUESTS) else ()


def is_request(record: Record) -> bool:
    """Return whether a record of a control topic is a request about what is parked or paused."""
    return (record.type or wire_name_of(ParkedRetryRequested)) in _REQUESTS


def of_request(service: Service, record: Record, request: Request) -> Named:
    """Return a request about what is parked or paused; one to several tasks has one name."""
    name, about = repr(record.location), f"{request.decider} {request.key}"
    if isinstance(request, PauseRequested | ResumeRequested):
        name, about = record.correlation_id or name, str(PauseTarget.about(service.name, request))
    bulk, _, cause = dict(record.headers).get(BULK, b"").decode("utf-8", "replace").partition(" ")
    what = _NAMES[type(request)]
    return name, Act(record.timestamp_ms, what, service.name, about, request.by, request.reason, bulk, cause)


def of_entry(service: Service, entry: JournalEntry) -> Iterator[Named]:
    """Yield what a task did on purpose."""
    for step in entry.steps:
        if step.kind in _ON_PURPOSE:
            about = f"event {step.request}" if step.request else ""
            name = repr((service.name, step.kind, step.detail, step.request))
            yield name, Act(entry.at_ms, step.kind, service.name, about, *signed(step.detail))


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


def signed(why: str) -> tuple[str, str]:
    """Return who and why of a signed reason."""
    by, _, reason = why.partition(": ")
    return by, reason
