"""What waits, as changelogs and parked topics have it: effects without an answer, deadlines to come, what is parked or paused."""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET, Decider
from eventlib.model.event import contract_of
from eventlib.model.identity import deadline_id
from eventlib.model.record import Record, key_text
from eventlib.runtime.keyed_state import due_times, memory_of
from eventlib.runtime.parking.parked import PAUSED, original_of
from eventlib.runtime.records import ChangelogKey, ParkedKey, Pause

_PAUSE = "INSERT OR REPLACE INTO _pauses VALUES (?, ?, ?, ?, ?, ?, ?)"
_ENDS = "DELETE FROM _pauses WHERE service = ? AND origin = ? AND partition = ?"
# A pause of a key names it; one of a service or a decider has neither key nor effect. Where several hold, one is shown.
_HELD = """
SELECT reason FROM _pauses AS p WHERE p.service = w.service AND p.decider IN ('', w.decider)
AND p.effect IN ('', w.effect) AND (p.key IS NULL OR p.key = w.key) LIMIT 1
"""
_HOLD = f"""
UPDATE _waits AS w SET kind = iif(EXISTS ({_HELD}), 'paused', 'effect'), reason = ({_HELD})
WHERE w.effect IS NOT NULL AND w.service = ?
"""  # noqa: S608  of the text above
_PUT = f"INSERT OR REPLACE INTO _waits VALUES (?{', ?' * 13})"  # noqa: S608  no value of anybody's
_PARKED = f"INSERT OR REPLACE INTO _parked_inputs VALUES (?{', ?' * 9})"  # noqa: S608  as above


_WAITING = frozenset({"state", "effect", "parked"})


class _Wait(NamedTuple):
    """One thing that is waited for, under the changelog's key that says so. `first` is a parked key's first offset in its topic."""

    decider: str
    kind: str
    name: str
    since: int
    key: str | None
    due_at: int | None = None
    reason: str | None = None
    effect: str | None = None
    first: int | None = None


class WaitFold:
    """Writes the tables of what waits, from the changelogs and parked topics of all services; `saga_field` is the key of sagas."""

    def __init__(self, log: EventLog, saga_field: str) -> None:
        app = log.choreography
        self._log, self._field = log, saga_field
        self.changelogs = {service.changelog.name: service.name for service in app.services}
        self.parked = {service.parked.name: service.name for service in app.services}
        self._deciders: dict[str, Decider[Any]] = {decider.name: decider for decider in app.deciders}
        self._with_deadlines = {decider.name for decider in app.deciders if decider.has_deadlines}
        self._asked = {
            (decider.name, contract_of(request).type): effect.asks
            for decider in app.deciders
            for request, effect in decider.effects.items()
        }

    def changed(self, db: sqlite3.Connection, record: Record, about: ChangelogKey, value: Any) -> None:
        """Write what one record of a changelog means."""
        service, origin = self.changelogs[record.topic], key_text(record)
        if about.kind == "pause":
            self._pause(db, service, record, origin, value)
        elif about.kind in _WAITING and (about.kind != "state" or about.decider in self._with_deadlines):
            place = origin, service, record.partition
            db.execute("DELETE FROM _waits WHERE (origin, service, partition) = (?, ?, ?)", place)
            for wait in () if record.value is None else self._of(record, about, value):
                saga = self._saga(db, self._deciders.get(wait.decider), record, about.key)
                named = origin, wait.name, service, record.partition, saga, record.correlation_id
                about_it = wait.decider, wait.kind, wait.since, wait.due_at, wait.reason
                db.execute(_PUT, (*named, *about_it, wait.key, wait.effect, wait.first))
                if wait.effect is not None:
                    db.execute(f"{_HOLD} AND w.origin = ?", (service, origin))

    def join(self, db: sqlite3.Connection, correlation_id: str, saga: str) -> None:
        """Name the saga of what waits under a correlation id."""
        sql = "UPDATE _waits SET saga = ? WHERE saga IS NULL AND correlation_id = ?"
        db.execute(sql, (saga, correlation_id))

    def _pause(self, db: sqlite3.Connection, service: str, record: Record, origin: str, value: Any) -> None:
        db.execute(_ENDS, (service, origin, record.partition))
        if isinstance(value, Pause) and value.kind != "limit":
            key = value.key if value.kind == "key" else None
            row = origin, record.partition, service, value.decider, key, value.effect, f"{PAUSED}{value.why}"
            db.execute(_PAUSE, row)
        db.execute(_HOLD, (service,))

    def _of(self, record: Record, about: ChangelogKey, value: Any) -> Iterator[_Wait]:
        kind, at_ms = about.kind, record.timestamp_ms
        if kind == "effect":
            asking = (record.source or "").partition("/")[2]
            notes = {name: text.decode("utf-8", "replace") for name, text in record.headers}
            parked, key = "parked_reason" in notes, record.subject
            name = self._asked.get((asking, record.type or ""), record.type or "")
            effect = None if parked else record.type
            found = _Wait(asking, "parked" if parked else "effect", name, at_ms, key, effect=effect)
            yield found._replace(reason=notes.get("parked_reason"))
        elif kind == "parked" and isinstance(value, ParkedKey):
            is_paused = value.reason.startswith(PAUSED)
            found = _Wait(value.decider, "paused" if is_paused else "parked", value.decider, value.since_ms, value.key)
            yield found._replace(reason=value.reason, first=value.first)
        elif kind == "state" and value is not None:
            decider = self._deciders[about.decider]
            for name, due_ms in due_times(decider, value, memory_of(record)).items():
                if name != FORGET:
                    yield _Wait(decider.name, "deadline", f"{decider.name}.{name}", at_ms, about.key, due_ms)

    def _saga(self, db: sqlite3.Connection, decider: Decider[Any] | None, record: Record, key: str) -> str | None:
        """Return the saga that waits: the decider's key, or that of the correlation id."""
        if not self._field:
            return record.correlation_id
        if decider is not None and decider.key == self._field:
            return record.subject or key
        rows = db.execute("SELECT saga FROM _stories WHERE correlation_id = ?", (record.correlation_id,))
        found = rows.fetchone()
        return None if found is None else str(found[0])

    def parked_input(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        """Take note of an input in a parked topic; whether it still waits, its key's record says."""
        facts, original = original_of(record)
        decider, key = self._log.choreography.decider(facts["decider"]), key_text(original)
        saga, input_id = key if decider.key == self._field else None, original.event_id
        if not self._field:
            saga = original.correlation_id
        if not original.topic:  # a deadline
            input_id = deadline_id(decider.name, key, original.type or "", original.timestamp_ms)
        elif saga is None and self._field:
            found = getattr(value, self._field, None)
            saga = None if found is None else str(found)
        place = self.parked[record.topic], record.partition, record.offset
        about = decider.name, key, saga, int(facts["since_ms"]), facts.get("reason", ""), input_id, original.type
        db.execute(_PARKED, (*place, *about))
