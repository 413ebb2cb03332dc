"""Which version of the code handled what, and what it parked, as the journals have it."""

import sqlite3

from eventlib.eventlog import EventLog
from eventlib.index.schema import text
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.runtime.parking.causes import kind_of
from eventlib.runtime.parking.parked import is_own_failure
from eventlib.runtime.records import JournalEntry, TaskClock

_TABLES = """
CREATE TABLE _code (
    topic TEXT, partition INTEGER, service TEXT, code_version TEXT, first INTEGER, last INTEGER, first_ms INTEGER, last_ms INTEGER
);
CREATE INDEX _code_of ON _code (topic, partition, service);
CREATE TABLE _failed (
    service TEXT, partition INTEGER, "offset" INTEGER, step INTEGER, at_ms INTEGER, code_version TEXT, decider TEXT, kind TEXT,
    PRIMARY KEY (service, partition, "offset", step)
) WITHOUT ROWID;
CREATE INDEX _failed_at ON _failed (at_ms);
CREATE TABLE _handled (service TEXT, type TEXT, PRIMARY KEY (service, type)) WITHOUT ROWID
"""
_ON = """
UPDATE _code SET last = ?1, last_ms = max(last_ms, ?2) WHERE last < ?3 AND code_version = ?4
AND rowid = (SELECT max(rowid) FROM _code WHERE topic = ?5 AND partition = ?6 AND service = ?7)
"""
_BEGIN = "INSERT INTO _code VALUES (?5, ?6, ?7, ?4, ?3, ?1, ?2, ?2)"
_OF_KEY = "INSERT OR IGNORE INTO _values VALUES ('code version', ?, ?)"
_FAILED = "INSERT OR REPLACE INTO _failed VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_MOVED = "UPDATE _failed SET at_ms = ? WHERE service = ? AND partition = ? AND at_ms BETWEEN ? AND ?"
_OF_KEYS = frozenset({"deadline", "release", "edit"})


def code_schema(choreography: Choreography) -> str:
    """Return the statements that make the tables, with the types of events that each service handles."""
    handled = [(each.name, contract_of(event).type) for each in choreography.services for event in each.handles]
    rows = [f"INSERT INTO _handled VALUES ({text(service)}, {text(name)})" for service, name in sorted(handled)]  # noqa: S608
    return ";".join([_TABLES, *rows])


class CodeFold:
    """Writes the tables of what each version of the code did: a range of inputs is one row, as long as the code stays."""

    def __init__(self, log: EventLog, saga_field: str) -> None:
        app = log.choreography
        self._journals = {service.journal.name: service.name for service in app.services}
        self._keyed = {each.name for each in app.deciders if saga_field and each.key == saga_field}

    def apply(self, db: sqlite3.Connection, record: Record, entry: JournalEntry) -> None:
        """Write what one entry means."""
        service, version = self._journals[record.topic], entry.code_version
        for step in entry.steps:
            if step.kind == "run" and version:
                row = step.last, entry.at_ms, step.first, version, step.topic, record.partition, service
                if not db.execute(_ON, row).rowcount:
                    db.execute(_BEGIN, row)
            elif step.kind in _OF_KEYS and step.decider in self._keyed:
                db.execute(_OF_KEY, (version, step.key))
        fold_failures(db, (service, record.partition), record.offset, entry)


def fold_failures(db: sqlite3.Connection, task: tuple[str, int], offset: int, entry: JournalEntry) -> None:
    """Write what a task has parked by itself; what a wrong clock had dated ahead is dated as its reset."""
    for first_ms, last_ms, at_ms in TaskClock().after(entry).resets:
        db.execute(_MOVED, (at_ms - 1, *task, first_ms, last_ms))
    for number, step in enumerate(entry.steps):
        if step.kind in {"park", "stall"} and is_own_failure(step.detail):
            values = entry.at_ms, entry.code_version, step.decider, kind_of(step.detail)
            db.execute(_FAILED, (*task, offset, number, *values))
