"""The acts on a log in tables that follow it: a page of them costs the same at any number of records."""

import sqlite3
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.model.record import Record
from eventlib.operations.acts import (
    ON_PURPOSE,
    Act,
    Named,
    begun_reruns,
    handlers_of,
    of_entry,
    of_event,
    of_request,
    sent_topics,
)
from eventlib.queries.projection import Projection
from eventlib.queries.projection_file import View
from eventlib.runtime.parking.control import REQUESTS
from eventlib.runtime.records import JournalEntry, TaskClock

_TABLES = """
CREATE TABLE acts (
    name TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, what TEXT NOT NULL, service TEXT NOT NULL, about TEXT NOT NULL,
    by TEXT NOT NULL, reason TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX acts_at ON acts (at_ms)
"""
_PUT = """
INSERT INTO acts VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms WHERE excluded.at_ms < at_ms
"""
_RESET = f"""
UPDATE acts SET at_ms = ? WHERE service = ? AND at_ms BETWEEN ? AND ? AND what IN ({", ".join(map(repr, ON_PURPOSE))})
"""  # noqa: S608  names of this package
_ACT = "at_ms, what, service, about, by, reason"


@dataclass(frozen=True, slots=True)
class ActPage:
    """The newest acts of a period, how many it has, and of which kinds any are."""

    acts: Sequence[Act]
    count: int
    kinds: Sequence[str]


def acts_view(log: EventLog) -> View:
    """Return the declaration of the table of acts, but for reruns, which the log has notes of."""
    services = handlers_of(log)
    of_service = {
        topic.name: service for service in log.choreography.services for topic in (service.control, service.journal)
    }

    def named(record: Record, value: Any) -> Iterable[Named]:
        service = of_service.get(record.topic)
        match value:
            case _ if service is None:
                return of_event(services, record)
            case JournalEntry():
                return of_entry(service, value)
            case _ if isinstance(value, REQUESTS):
                return [of_request(service, record, value)]
            case _:
                return ()

    def apply(db: sqlite3.Connection, record: Record, value: Any) -> Iterable[Hashable]:
        for first_ms, last_ms, at_ms in TaskClock().after(value).resets if isinstance(value, JournalEntry) else ():
            db.execute(_RESET, (at_ms - 1, of_service[record.topic].name, first_ms, last_ms))
        for name, act in named(record, value):
            db.execute(_PUT, (name, act.at_ms, act.what, act.service, act.about, act.by, act.reason))
        return ()

    events = sorted(topic.name for topic in sent_topics(log))
    return View("acts", [*of_service], _TABLES, apply, undecoded=events)


class ActIndex:
    """Pages of acts, from a projection that has the tables of `acts_view`."""

    def __init__(self, log: EventLog, projection: Projection) -> None:
        self._log = log
        self.projection = projection

    async def page(self, since_ms: int, who: str, what: str, most: int) -> ActPage:
        """Return the newest acts since a time (ms since 1970), by those in whose name `who` is, of the kind `what` if it is one."""
        begun = await begun_reruns(self._log, since_ms)
        rows = self.projection.rows
        of_kind = {kind for (kind,) in rows("SELECT DISTINCT what FROM acts WHERE at_ms >= ?", (since_ms,))}
        meant = "at_ms >= ?1 AND instr(by, ?2) AND ?3 IN ('', what)"
        values = since_ms, who, what
        ((count,),) = rows(f"SELECT count(*) FROM acts WHERE {meant}", values)  # noqa: S608  names of this file
        found = rows(f"SELECT {_ACT} FROM acts WHERE {meant} ORDER BY at_ms DESC LIMIT ?4", (*values, most))  # noqa: S608  as above
        wanted = [each for each in begun if who in each.by and what in {"", each.what}]
        newest = sorted([*(Act(*row) for row in found), *wanted], key=lambda act: -act.at_ms)
        return ActPage(newest[:most], count + len(wanted), sorted(of_kind | {each.what for each in begun}))
