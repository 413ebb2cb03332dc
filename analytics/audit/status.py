"""The status of a log: what its services have handled, what is pending, and what is parked."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import RDD

from analytics.audit.application import Application
from analytics.audit.newest import Newest
from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.runtime.records import POSITION_KEY, Positions, changelog_key


@dataclass(frozen=True)
class LogStatus:
    """Cursors by (service, topic, partition); parked (decider, key)s; pending effects."""

    next: Mapping[tuple[str, str, int], int]
    parked: frozenset[tuple[str, str]]
    pending: frozenset[str]


class InFlight:
    """Finds out whether consequences of an event are still to come."""

    def __init__(self, application: Application, status: LogStatus) -> None:
        self._status = status
        self._handling: dict[str, list[tuple[str, str]]] = {}
        for service in application.choreography.services:
            for decider in service.deciders:
                for event in decider.handlers:
                    self._handling.setdefault(contract_of(event).type, []).append((service.name, decider.name))
        self._next: dict[tuple[str | None, str, int], int] = {}

    def has(self, record: Record) -> bool:
        """Return whether an event waits for a decider, an external system, or a person."""
        return (
            record.offset >= self._handled_to(record.type, record.topic, record.partition)
            or record.event_id in self._status.pending
            or (bool(self._status.parked) and self._is_parked(record))
        )

    def _handled_to(self, kind: str | None, topic: str, partition: int) -> int:
        """Return the offset up to which all consumers have handled a type; unlimited without any."""
        known = self._next.get((kind, topic, partition))
        if known is None:
            services = [service for service, _ in self._handling.get(kind or "", ())]
            handled = [self._status.next.get((service, topic, partition), 0) for service in services]
            known = self._next[kind, topic, partition] = min(handled, default=sys.maxsize)
        return known

    def _is_parked(self, record: Record) -> bool:
        deciders = self._handling.get(record.type or "", ())
        return any((decider, key_text(record)) in self._status.parked for _, decider in deciders)


def status_of(newest: "RDD[Newest]", url: str, application: Application) -> LogStatus:
    """Return the status of a log, from its changelogs' newest records."""
    positions, parked, pending = dict[tuple[str, str, int], int](), set[tuple[str, str]](), set[str]()
    with application.opened(url) as opened:
        for topic, partition, _, _, key, value, _ in newest.filter(_tells).collect():
            about = changelog_key(key)
            if key == POSITION_KEY:
                service = topic.removesuffix(".changelog")
                for read, offset in _positions(opened, value or b"").items():
                    positions[service, read, partition] = offset
            elif about.kind == "parked":
                parked.add((about.decider, about.key))
            elif about.kind == "effect":
                pending.add(about.key)
    return LogStatus(positions, frozenset(parked), frozenset(pending))


def _tells(record: Newest) -> bool:
    return bool(record.value) and changelog_key(record.key).kind != "state"


def _positions(opened: EventLog, value: bytes) -> Mapping[str, int]:
    """Return a task's cursor; none from damaged bytes, so that all its inputs count as in flight."""
    try:
        return opened.codec.decode(Positions, value).next
    except Exception:  # noqa: BLE001  whatever is on the log: a record's checksum tells that it is damaged
        return {}
