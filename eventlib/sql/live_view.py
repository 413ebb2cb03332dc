"""The tables as they follow from a log: facts in tables of its own (`_…`), and views with the names that questions use."""

import sqlite3
from collections.abc import Hashable, Iterable
from hashlib import blake2b
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.model.decider import FORGET
from eventlib.model.event import Event, contract_of
from eventlib.model.identity import deadline_id
from eventlib.model.personal import masked, personal_fields
from eventlib.model.record import Record, key_text
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_text
from eventlib.queries.index_columns import quoted
from eventlib.queries.projection_file import View
from eventlib.runtime.keyed_state import entry_of
from eventlib.runtime.parking.parked import original_of
from eventlib.runtime.records import EFFECT, PARKED, STATE, ParkedKey, state_name
from eventlib.sql.columns import Convert, iso_ms
from eventlib.sql.tables import Declared, Field, event_fields, event_table, state_fields, state_table
from eventlib.sql.views import schema

VERSION = 3
_EVENT = f"INSERT INTO _events VALUES (NULL{', ?' * 12})"  # noqa: S608  no value of anybody's
_STEP = """
INSERT INTO _sagas (saga, first_at, last_at, steps, failures, compensations) VALUES (?1, ?2, ?2, 1, ?3, ?4)
ON CONFLICT (saga) DO UPDATE SET first_at = min(first_at, ?2), last_at = max(last_at, ?2), steps = steps + 1,
failures = failures + ?3, compensations = compensations + ?4
"""
_FIRST = """
UPDATE _sagas SET {0}_place = ?2, {0}_at = ?3, {0}_type = ?4, {0}_reason = ?5
WHERE saga = ?1 AND ({0}_place IS NULL OR {0}_place > ?2)
"""
_ENDING, _FAILURE = _FIRST.format("ending"), _FIRST.format("failure")


class LiveView:
    """Writes the tables: `view` is the declaration for a projection. Raises: WiringError for names that collide."""

    def __init__(self, log: EventLog) -> None:
        app = log.choreography
        self._log = log
        self._declared = declared = Declared(app)
        self._fields = {name: event_fields(event) for name, event in declared.events.items()}
        self._reasons = {name: _reason_of(event, self._fields[name]) for name, event in declared.events.items()}
        self._inserts = {
            name: f"INSERT INTO {quoted('_' + event_table(event))} VALUES (?{', ?' * len(self._fields[name])})"  # noqa: S608  names of fields
            for name, event in declared.events.items()
        }
        self._states = {name: (decider, state_fields(decider)) for name, decider in declared.deciders.items()}
        self._changelogs = {service.changelog.name: service for service in app.services}
        self._parked = {service.parked.name: service for service in app.services}
        self._failures = {*declared.types(failing=True)}
        self._reversals = {*declared.types(reversing=True)}
        self._finals = {*declared.types(final=True)}

    def view(self) -> View:
        """Return the declaration of the tables."""
        events = dict.fromkeys(contract_of(event).topic.name for event in self._log.choreography.events)
        topics = [*events, *self._changelogs, *self._parked]
        return View("sql", topics, schema(self._declared), self.apply, version=f"{VERSION}/{self._contracts()}")

    def _contracts(self) -> str:
        """Return a fingerprint of what the rows are decoded to: with another contract, they are made again."""
        declared = self._declared
        classes = [*declared.events.values(), *(decider.state for decider in declared.deciders.values())]
        parts = [schema_text(record_of(each)) for each in classes]
        parts += [repr(sorted(each)) for each in (self._failures, self._reversals, self._finals)]
        return blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()

    def apply(self, db: sqlite3.Connection, record: Record, value: Any) -> Iterable[Hashable]:
        """Write what one record means."""
        if record.topic in self._changelogs:
            self._changed(db, record, value)
        elif record.topic in self._parked:
            self._waits(db, record, value)
        else:
            self._happened(db, record, value)
        return ()

    # --- events

    def _happened(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        name = self._log.external.type_of(record) or ""
        event = masked(value) if isinstance(value, Event) else None  # whatever rights the log was opened with
        saga, at = self._saga(record, name, event), iso_ms(record.timestamp_ms)
        place = record.topic, record.partition, record.offset
        key = None if record.key is None else key_text(record)
        ids = record.event_id, record.source, record.subject, record.correlation_id, record.causation_id
        number = db.execute(_EVENT, (saga, *place, key, at, name, *ids)).lastrowid
        if event is not None and name in self._fields:
            values = [_value(each.type.value, getattr(event, each.name)) for each in self._fields[name]]
            db.execute(self._inserts[name], (number, *values))
        elif name in self._fields and record.value is not None:
            db.execute("INSERT OR IGNORE INTO _unread VALUES (?, ?, ?)", place)
        if saga is not None:
            self._step(db, saga, at, record, name, event)

    def _saga(self, record: Record, name: str, event: Event | None) -> str | None:
        """Return the saga that an event is a step of; None for one that is no step, or tells nothing."""
        story, cls = self._declared.saga_field, self._declared.steps.get(name)
        if cls is None:
            return None
        if not story:
            return record.correlation_id
        contract = contract_of(cls)
        if contract.request and contract.key == story:
            return None if record.key is None else key_text(record)
        found = getattr(event, story, None)
        return None if found is None else str(found)

    def _step(self, db: sqlite3.Connection, saga: str, at: str, record: Record, name: str, event: Event | None) -> None:
        db.execute(_STEP, (saga, at, name in self._failures, name in self._reversals))
        if event is None and self._declared.saga_field:
            return  # without its fields it neither ends the saga nor says why
        place = f"{at}/{record.topic}/{record.partition:06d}/{record.offset:015d}"
        convert = self._reasons.get(name)
        reason = None if event is None or convert is None else _value(convert, getattr(event, "reason", None))
        about = saga, place, at, name, reason
        if name in self._finals:
            db.execute(_ENDING, about)
        if name in self._failures:
            db.execute(_FAILURE, about)

    # --- what services note for themselves

    def _changed(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        name = key_text(record)
        if name.startswith(STATE):
            self._state(db, record, value)
        elif name.startswith(EFFECT):
            db.execute("DELETE FROM _pending WHERE id = ?", (name.removeprefix(EFFECT),))
            if record.value is not None:
                self._pending(db, record)
        elif name.startswith(PARKED):
            service = self._changelogs[record.topic].name
            place = service, record.partition, name
            db.execute("DELETE FROM _parked_keys WHERE (service, partition, name) = (?, ?, ?)", place)
            if isinstance(value, ParkedKey):
                about = value.decider, value.key, value.first, value.count, value.reason
                db.execute("INSERT INTO _parked_keys VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, *about))

    def _state(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        decider_name, key = state_name(key_text(record))
        if decider_name not in self._states:
            return
        decider, fields = self._states[decider_name]
        table, place = quoted("_" + state_table(decider)), (key, record.partition)
        db.execute(f"DELETE FROM {table} WHERE key = ? AND partition = ?", place)  # noqa: S608  names of deciders
        service = self._changelogs[record.topic].name
        named = service, decider_name, record.partition, key
        db.execute("DELETE FROM _due WHERE (service, decider, partition, key) = (?, ?, ?, ?)", named)
        if value is None:
            return
        values = [_value(each.type.value, getattr(value, each.name)) if each.is_shown else None for each in fields]
        row = key, *values, record.causation_id, iso_ms(record.timestamp_ms), record.partition
        db.execute(f"INSERT INTO {table} VALUES (?{', ?' * (len(row) - 1)})", row)  # noqa: S608  as above
        if decider.has_deadlines:
            saga = self._saga_of_key(decider.key, key, record.correlation_id)
            for due, at_ms in entry_of(record, decider, self._log.codec).due.items():
                if due != FORGET:
                    db.execute("INSERT INTO _due VALUES (?, ?, ?, ?, ?, ?, ?)", (*named, due, saga, iso_ms(at_ms)))

    def _saga_of_key(self, field: str | None, key: str, correlation_id: str | None) -> str | None:
        if not self._declared.saga_field:
            return correlation_id
        return key if field == self._declared.saga_field else None

    def _pending(self, db: sqlite3.Connection, record: Record) -> None:
        notes = {name: text.decode("utf-8", "replace") for name, text in record.headers}
        at = iso_ms(record.timestamp_ms)
        db.execute(
            "INSERT OR REPLACE INTO _pending VALUES (?, ?, ?)", (record.event_id, notes.get("parked_reason"), at)
        )

    def _waits(self, db: sqlite3.Connection, record: Record, value: Any) -> None:
        """Take note of an input in a parked topic; whether it still waits, its key's record says."""
        facts, original = original_of(record)
        decider = self._log.choreography.decider(facts["decider"])
        key = key_text(original)
        saga, input_id = self._saga_of_key(decider.key, key, original.correlation_id), original.event_id
        if not original.topic:  # a deadline
            input_id = deadline_id(decider.name, key, original.type or "", original.timestamp_ms)
        elif saga is None and self._declared.saga_field:
            found = getattr(value, self._declared.saga_field, None)
            saga = None if found is None else str(found)
        service, since = self._parked[record.topic].name, iso_ms(int(facts["since_ms"]))
        place = service, record.partition, record.offset
        about = decider.name, key, saga, since, facts.get("reason", ""), input_id, original.type
        db.execute("INSERT OR REPLACE INTO _parked_inputs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*place, *about))


def _value(convert: Any, value: Any) -> Any:
    return None if value is None else convert(value)


def _reason_of(event: type[Event], fields: Iterable[Field]) -> Convert | None:
    """Return the function to what an event gives as its reason; None where that is personal, or no text."""
    found = next((each for each in fields if each.name == "reason"), None)
    is_told = found is not None and found.type.name == "string" and "reason" not in personal_fields(event)
    return found.type.value if found is not None and is_told else None
