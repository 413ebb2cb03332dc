"""What sagas wait for: effects without an answer, deadlines to come, what is parked, and what operators have paused."""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import contract_of
from eventlib.model.record import Record, key_text
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.parking.parked import PAUSED
from eventlib.runtime.records import PAUSE, ParkedKey, Pause

_TABLES = """
CREATE TABLE saga_waits (
    origin TEXT, name TEXT NOT NULL, saga TEXT, correlation_id TEXT, service TEXT NOT NULL, decider TEXT NOT NULL,
    kind TEXT NOT NULL, since INTEGER NOT NULL, due_at INTEGER, reason TEXT, key TEXT, effect TEXT,
    PRIMARY KEY (origin, name)
) WITHOUT ROWID;
CREATE TABLE saga_pauses (
    origin TEXT, partition INTEGER, service TEXT, decider TEXT, key TEXT, effect TEXT, reason TEXT,
    PRIMARY KEY (service, origin, partition)
) WITHOUT ROWID;
CREATE INDEX saga_waits_of ON saga_waits (saga);
CREATE INDEX saga_waits_unclaimed ON saga_waits (correlation_id) WHERE saga IS NULL;
"""
_INDEXED = ("name", "kind", "service", "decider", "since", "due_at", "reason")
_PAUSE = "INSERT OR REPLACE INTO saga_pauses VALUES (?, ?, ?, ?, ?, ?, ?)"
_ENDS = "DELETE FROM saga_pauses WHERE service = ? AND origin = ? AND partition = ?"
# A pause of a key names it; one of a service or a decider has neither key nor effect. Where several hold, one is shown.
_HELD = """
SELECT reason FROM saga_pauses AS p WHERE p.service = w.service AND p.decider IN ('', w.decider)
AND p.effect IN ('', w.effect) AND (p.key IS NULL OR p.key = w.key) LIMIT 1
"""
_HOLD = f"""
UPDATE saga_waits AS w SET kind = iif(EXISTS ({_HELD}), 'paused', 'effect'), reason = ({_HELD})
WHERE w.effect IS NOT NULL AND w.service = ?
"""  # noqa: S608  of the text above
_PUT = "INSERT OR REPLACE INTO saga_waits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class _Wait(NamedTuple):
    """One thing that is waited for, under the changelog's key that says so."""

    decider: str
    kind: str
    name: str
    since: int
    due_at: int | None = None
    reason: str | None = None
    key: str | None = None
    effect: str | None = None


class Waits:
    """Writes the table `saga_waits`, from the changelogs of all services."""

    def __init__(self, log: EventLog, key: str) -> None:
        self._log = log
        app = log.choreography
        self._key = key
        self._services = {service.changelog.name: service.name for service in app.services}
        self._deciders: dict[str, Decider[Any]] = {decider.name: decider for decider in app.deciders}
        self.topics = tuple(self._services)
        indexes = [
            f"CREATE INDEX saga_waits_{each} ON saga_waits ({each}, saga) WHERE {each} IS NOT NULL" for each in _INDEXED
        ]
        self.tables = ";".join([_TABLES.strip().rstrip(";"), *indexes])
        self._asked = {
            (decider.name, contract_of(request).type): effect.asks
            for decider in app.deciders
            for request, effect in decider.effects.items()
        }

    def apply(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        """Write what one record of a changelog means."""
        origin = key_text(record)
        if origin.startswith(PAUSE):
            self._pause(db, record, origin, value)
            return
        db.execute("DELETE FROM saga_waits WHERE origin = ?", (origin,))
        service, correlation_id = self._services[record.topic], record.correlation_id
        for wait in self._waits(record, origin, value):
            saga = self._saga(db, self._deciders.get(wait.decider), record, origin)
            db.execute(
                _PUT,
                (origin, wait.name, saga, correlation_id, service, *wait[:2], *wait[3:]),
            )
            if wait.effect is not None:
                db.execute(f"{_HOLD} AND w.origin = ?", (service, origin))

    def _pause(self, db: sqlite3.Connection, record: Record, origin: str, value: Any) -> None:
        service = self._services[record.topic]
        db.execute(_ENDS, (service, origin, record.partition))
        if isinstance(value, Pause) and value.kind != "limit":
            key = value.key if value.kind == "key" else None
            db.execute(
                _PAUSE, (origin, record.partition, service, value.decider, key, value.effect, f"{PAUSED}{value.why}")
            )
        db.execute(_HOLD, (service,))

    def join(self, db: sqlite3.Connection, correlation_id: str, saga: str) -> None:
        """Name the saga of what waits under a correlation id."""
        sql = "UPDATE saga_waits SET saga = ? WHERE saga IS NULL AND correlation_id = ?"
        db.execute(sql, (saga, correlation_id))

    def _waits(self, record: Record, origin: str, value: Any) -> Iterator[_Wait]:
        kind, _, rest = origin.partition("/")
        if record.value is None:
            return
        at_ms = record.timestamp_ms
        if kind == "effect":
            asking = (record.source or "").partition("/")[2]
            notes = {name: text.decode("utf-8", "replace") for name, text in record.headers}
            parked = "parked_reason" in notes
            name = self._asked.get((asking, record.type or ""), record.type or "")
            effect = None if parked else record.type
            why = notes.get("parked_reason")
            yield _Wait(asking, "parked" if parked else "effect", name, at_ms, None, why, record.subject, effect)
        elif kind == "parked" and isinstance(value, ParkedKey):
            name = "paused" if value.reason.startswith(PAUSED) else "parked"
            yield _Wait(value.decider, name, value.decider, value.since_ms, reason=value.reason)
        elif kind == "state" and value is not None:
            decider = self._deciders.get(rest.partition("/")[0])
            if decider is not None and decider.has_deadlines:
                for name, due_ms in entry_of(record, decider, self._log.codec).due.items():
                    if name != FORGET:
                        yield _Wait(decider.name, "deadline", f"{decider.name}.{name}", at_ms, due_at=due_ms)

    def _saga(self, db: sqlite3.Connection, decider: Decider[Any] | None, record: Record, origin: str) -> str | None:
        """Return the saga that waits: the decider's key, or that of the correlation id."""
        if decider is not None and decider.key == self._key:
            return record.subject or origin.partition("/")[2].partition("/")[2]
        rows = db.execute("SELECT saga FROM saga_stories WHERE correlation_id = ?", (record.correlation_id,))
        found = rows.fetchone()
        return None if found is None else str(found[0])
