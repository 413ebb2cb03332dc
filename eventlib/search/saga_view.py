"""The tables of sagas, as they follow from a log: one row a saga, with what it waits for and its declared attributes."""

import sqlite3
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from eventlib.eventlog import EventLog
from eventlib.model.event import Event, contract_of
from eventlib.model.personal import personal_fields
from eventlib.model.record import Record, key_text
from eventlib.queries.projection_file import View
from eventlib.queries.saga_index import saga_topics
from eventlib.search.attributes import Declared, declared_in, saga_field
from eventlib.search.waits import Waits
from eventlib.values import snake_case

VERSION = 5
_INDEXED = ("started_at", "last_at", "ended_at", "duration_ms", "state", "outcome", "reason")
_TABLES = """
CREATE TABLE sagas (
    saga TEXT NOT NULL, open INTEGER NOT NULL DEFAULT 1, state TEXT, is_overdue INTEGER NOT NULL DEFAULT 0,
    overdue_at INTEGER, outcome TEXT NOT NULL DEFAULT 'open', reason TEXT,
    is_told INTEGER NOT NULL DEFAULT 0, failure TEXT, failure_at TEXT,
    started_at INTEGER NOT NULL, last_at INTEGER NOT NULL, ended_at INTEGER, duration_ms INTEGER,
    steps INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0, compensations INTEGER NOT NULL DEFAULT 0{columns}
);
CREATE TABLE saga_stories (correlation_id TEXT, saga TEXT, PRIMARY KEY (correlation_id, saga)) WITHOUT ROWID;
CREATE TABLE saga_beside (
    correlation_id TEXT, topic TEXT, partition INTEGER, "offset" INTEGER, step BLOB,
    PRIMARY KEY (correlation_id, topic, partition, "offset")
) WITHOUT ROWID;
CREATE TABLE saga_values (name TEXT, value, saga TEXT, PRIMARY KEY (name, value, saga)) WITHOUT ROWID;
CREATE INDEX saga_values_of ON saga_values (saga, name);
CREATE UNIQUE INDEX sagas_saga ON sagas (saga);
CREATE INDEX sagas_open ON sagas (started_at, saga) WHERE open;
CREATE INDEX sagas_overdue_at ON sagas (overdue_at) WHERE open;
"""
_STEP = """
INSERT INTO sagas (saga, started_at, last_at, steps, failures, compensations) VALUES (?1, ?2, ?2, 1, ?3, ?4)
ON CONFLICT (saga) DO UPDATE SET started_at = min(started_at, ?2), last_at = max(last_at, ?2), steps = steps + 1,
failures = failures + ?3, compensations = compensations + ?4
"""
_END = """
UPDATE sagas SET open = 0, outcome = ?2, is_told = ?5, reason = CASE WHEN ?5 THEN ?3 ELSE failure END,
ended_at = ?4, duration_ms = ?4 - started_at WHERE saga = ?1 AND (ended_at IS NULL OR ended_at > ?4)
"""
_FAILED = """
UPDATE sagas SET failure = ?2, failure_at = ?3, reason = CASE WHEN is_told THEN reason ELSE ?2 END
WHERE saga = ?1 AND (failure_at IS NULL OR failure_at > ?3)
"""
_STATE = """
INSERT INTO sagas (saga, state, is_overdue, overdue_at, started_at, last_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (saga) DO UPDATE SET state = ?2, is_overdue = ?3, overdue_at = ?4
"""


class Step(NamedTuple):
    """What one event means for a saga: when and where, the counts, its reason (else its name) if it is a failure, and its values."""

    at_ms: int
    place: str
    failures: int
    compensations: int
    reason: str | None
    values: list[tuple[str, Any]]


class SagaView:
    """Writes the tables of sagas: `view` is the declaration for a projection."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        app = log.choreography
        self.key = saga_field(app)
        self._by_key, self._by_correlation = saga_topics(log, self.key)
        self._declared = declared_in(app)
        self._waits = Waits(log, self.key)
        self._failures = {contract_of(event).type for event in app.failures}
        self._reversals = {contract_of(event).type for event in app.events if contract_of(event).reverses}
        self._finals = {
            contract_of(event).type
            for event in app.events
            if contract_of(event).final and contract_of(event).key == self.key
        }
        self._reasons = {
            contract_of(event).type
            for event in app.events
            if "reason" in event.model_fields and "reason" not in personal_fields(event)
        } & (self._failures | self._finals)
        self._of_events = _of_events(self._declared)
        self._of_states = _of_states(self._declared)
        self._changelogs = {
            app.service_of(decider).changelog.name for decider in app.deciders if decider.name in self._of_states
        }
        if app.sagas is not None:
            self._changelogs.add(app.service_of(app.sagas.decider).changelog.name)

    def view(self) -> View:
        """Return the declaration of the tables."""
        singles = [name for name, each in self._declared.items() if not each.field.many]
        columns = "".join(f', "{name}"' for name in singles)
        indexes = "".join(f'CREATE INDEX "sagas_{name}" ON sagas ("{name}", saga);' for name in (*_INDEXED, *singles))
        topics = [*self._by_key, *self._by_correlation]
        decoded = {contract_of(event).topic.name for event in self._log.choreography.events if self._reads(event)}
        versions = sorted((name, repr(each.field.kind), each.decider) for name, each in self._declared.items())
        return View(
            "sagas",
            [*(topic for topic in topics if topic in decoded), *self._waits.topics],
            ";".join((_TABLES.format(columns=columns).strip().rstrip(";"), indexes.rstrip(";"), self._waits.tables)),
            self.apply,
            undecoded=[topic for topic in topics if topic not in decoded],
            version=f"{VERSION}/{self.key}/{versions}",
        )

    def _reads(self, event: type[Event]) -> bool:
        """Return whether more of an event counts than that it happened."""
        name = contract_of(event).type
        return name in self._reasons or name in self._of_events

    def apply(self, db: sqlite3.Connection, record: Record, value: Any) -> Iterable[Hashable]:
        """Write what one record means."""
        if record.topic in self._waits.topics:
            self._waits.apply(db, record, value)
            return self._of_state(db, record, value)
        name = self._log.external.type_of(record) or ""
        step = self._step(record, name, value)
        if record.topic in self._by_key:
            key = key_text(record)
            self._add(db, key, step)
            self._singles(db, key, name, value)
            self._end(db, key, name, record, value)
            self._join(db, record.correlation_id or record.event_id, key)
            return [key]
        if record.correlation_id is None or name not in self._by_correlation[record.topic]:
            return ()
        row = record.correlation_id, record.topic, record.partition, record.offset, to_json(step)
        db.execute("INSERT OR IGNORE INTO saga_beside VALUES (?, ?, ?, ?, ?)", row)
        sagas = db.execute(
            "SELECT saga FROM saga_stories WHERE correlation_id = ?", (record.correlation_id,)
        ).fetchall()
        for (saga,) in sagas:
            self._add(db, saga, step)
        return [saga for (saga,) in sagas]

    def _step(self, record: Record, name: str, value: Any) -> Step:
        place = f"{record.timestamp_ms:015d}/{record.topic}/{record.partition:06d}/{record.offset:015d}"
        reason = None
        if name in self._failures and (reason := self._reason(name, value)) is None:
            reason = snake_case(name)
        many = [
            (found.field.name, found.field.kind.stored(getattr(value, found.field.field)))
            for found in self._of_events.get(name, ())
            if found.field.many and isinstance(value, Event)
        ]
        values = [(attribute, each) for attribute, each in many if each is not None]
        return Step(record.timestamp_ms, place, name in self._failures, name in self._reversals, reason, values)

    def _reason(self, name: str, value: Any) -> str | None:
        reason = getattr(value, "reason", None) if name in self._reasons else None
        return None if reason is None else str(reason)

    def _add(self, db: sqlite3.Connection, saga: str, step: Step) -> None:
        db.execute(_STEP, (saga, step.at_ms, step.failures, step.compensations))
        if step.reason is not None:
            db.execute(_FAILED, (saga, step.reason, step.place))
        for name, value in step.values:
            db.execute("INSERT OR IGNORE INTO saga_values VALUES (?, ?, ?)", (name, value, saga))

    def _singles(self, db: sqlite3.Connection, saga: str, name: str, value: Any) -> None:
        found = [each.field for each in self._of_events.get(name, ()) if not each.field.many]
        if found and isinstance(value, Event):
            self._set(db, saga, {each.name: each.kind.stored(getattr(value, each.field)) for each in found})

    def _set(self, db: sqlite3.Connection, saga: str, values: Mapping[str, object]) -> None:
        sets = ", ".join(f'"{name}" = ?' for name in values)
        db.execute(f"UPDATE sagas SET {sets} WHERE saga = ?", (*values.values(), saga))  # noqa: S608  names that are declared

    def _end(self, db: sqlite3.Connection, saga: str, name: str, record: Record, value: Any) -> None:
        if name in self._finals:
            reason, turned = self._reason(name, value), name in self._failures or name in self._reversals
            is_told = reason is not None or not turned
            db.execute(_END, (saga, snake_case(name), reason, record.timestamp_ms, is_told))

    def _join(self, db: sqlite3.Connection, correlation_id: str, saga: str) -> None:
        """Take note that events of a correlation id belong to a saga, and add those that came before."""
        values = correlation_id, saga
        if not db.execute("INSERT OR IGNORE INTO saga_stories VALUES (?, ?)", values).rowcount:
            return
        for (step,) in db.execute(
            "SELECT step FROM saga_beside WHERE correlation_id = ?", (correlation_id,)
        ).fetchall():
            self._add(db, saga, Step(*from_json(step)))
        self._waits.join(db, correlation_id, saga)

    def _of_state(self, db: sqlite3.Connection, record: Record, value: Any) -> Iterable[Hashable]:
        kind, _, rest = key_text(record).partition("/")
        decider, _, saga = rest.partition("/")
        if kind != "state" or record.topic not in self._changelogs:
            return ()
        sagas = self._log.choreography.sagas
        if sagas is not None and sagas.decider.name == decider and sagas.decider.key == self.key:
            status = None if value is None else sagas.state_of(value)
            if status is not None:
                overdue_at = None if status.overdue_at is None else int(status.overdue_at.timestamp() * 1000)
                db.execute(_STATE, (saga, status.name, status.is_overdue, overdue_at, record.timestamp_ms))
            else:
                db.execute("UPDATE sagas SET state = NULL, is_overdue = 0, overdue_at = NULL WHERE saga = ?", (saga,))
        if decider in self._of_states:
            fields = [each.field for each in self._of_states[decider]]
            self._set(
                db,
                saga,
                {each.name: None if value is None else each.kind.stored(getattr(value, each.field)) for each in fields},
            )
        return [saga]


def _of_events(declared: Mapping[str, Declared]) -> dict[str, list[Declared]]:
    found: dict[str, list[Declared]] = {}
    for each in declared.values():
        if not each.decider:
            found.setdefault(contract_of(each.field.cls).type, []).append(each)
    return found


def _of_states(declared: Mapping[str, Declared]) -> dict[str, list[Declared]]:
    found: dict[str, list[Declared]] = {}
    for each in declared.values():
        if each.decider:
            found.setdefault(each.decider, []).append(each)
    return found
