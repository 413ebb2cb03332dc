"""The fold of a log into the index: what each record means for sagas and their steps, for what waits, and for acts."""

import sqlite3
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

from eventlib.eventlog import EventLog
from eventlib.index.acts import ActFold
from eventlib.index.attributes import Declared as Searched
from eventlib.index.attributes import declared_in
from eventlib.index.code import CodeFold, code_schema
from eventlib.index.columns import Convert, iso_ms
from eventlib.index.schema import core_schema, typed_schema
from eventlib.index.tables import Declared, event_fields, event_table, is_keyed, reason_of, state_fields, state_table
from eventlib.index.waits import WaitFold
from eventlib.model.event import contract_of
from eventlib.model.personal import masked
from eventlib.model.record import Record, key_text
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_text
from eventlib.queries.index_columns import quoted
from eventlib.queries.projection_file import View
from eventlib.runtime.records import ChangelogKey, JournalEntry, changelog_key
from eventlib.values import snake_case

VERSION = 2
_EVENT = f"INSERT INTO _events VALUES (NULL{', ?' * 12})"  # noqa: S608  no value of anybody's
_STEP = """
INSERT INTO _sagas (saga, started_at, last_at, steps, failures, compensations) VALUES (?1, ?2, ?2, 1, ?3, ?4)
ON CONFLICT (saga) DO UPDATE SET started_at = iif(steps, min(started_at, ?2), ?2), last_at = iif(steps, max(last_at, ?2), ?2),
steps = steps + 1, failures = failures + ?3, compensations = compensations + ?4
"""
_MORE = """
UPDATE _sagas SET last_at = max(last_at, ?2), steps = steps + 1, failures = failures + ?3
WHERE saga = ?1 AND steps AND started_at <= ?2
"""
"""The change of most steps: no trigger of the counts by hour looks at these columns."""
_END = """
UPDATE _sagas SET open = 0, _ending_place = ?2, ended_at = ?3, outcome = ?4, _ending_reason = ?5, _is_good = ?6
WHERE saga = ?1 AND (_ending_place IS NULL OR _ending_place > ?2)
"""
_FAILED = """
UPDATE _sagas SET _failure_place = ?2, _failure = ?3 WHERE saga = ?1 AND (_failure_place IS NULL OR _failure_place > ?2)
"""
_STATE = """
INSERT INTO _sagas (saga, state, is_overdue, overdue_at, started_at, last_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (saga) DO UPDATE SET state = ?2, is_overdue = ?3, overdue_at = ?4
"""


class IndexFold:
    """Writes the tables of the index: `view` is the declaration for a projection. Raises: WiringError for names that collide."""

    def __init__(self, log: EventLog) -> None:
        app = log.choreography
        self._log = log
        self._declared = declared = Declared(app)
        self._events = {contract_of(event).type: event for event in app.events}
        self._keyed = {name for name, event in declared.steps.items() if is_keyed(event, declared.saga_field)}
        self._failures = {*declared.types(failing=True)}
        self._reversals = {*declared.types(reversing=True)}
        self._finals = {*declared.types(final=True)}
        tells = self._failures | self._finals
        self._reasons = {name: convert for name in tells if (convert := reason_of(declared.steps[name])) is not None}
        self._searched = declared_in(app) if declared.saga_field else {}
        self._of_events, self._of_states = _by_source(self._searched)
        self._waits = WaitFold(log, declared.saga_field)
        self._acts = ActFold(log)
        self._code = CodeFold(log, declared.saga_field)
        self._fields = {name: event_fields(event) for name, event in declared.events.items()}
        self._inserts = {
            name: f"INSERT INTO {quoted('_' + event_table(event))} VALUES (?{', ?' * len(self._fields[name])})"  # noqa: S608  names of fields
            for name, event in declared.events.items()
        }
        self._states = {name: (state_table(each), state_fields(each)) for name, each in declared.deciders.items()}
        self._decoded = {contract_of(e).topic.name for name, e in self._events.items() if self._is_decoded(name)}

    def view(self) -> View:
        """Return the declaration of the tables of facts; its `wider` one has those of events' and states' fields, too."""
        declared, app = self._declared, self._log.choreography
        events = {contract_of(event).topic.name for event in app.events}
        own = [*self._waits.changelogs, *self._waits.parked, *self._acts.services]
        searched = {name: repr(each.field.kind) for name, each in self._searched.items()}
        version = repr((VERSION, declared.saga_field, sorted(searched.items()), *map(sorted, self._rules())))
        names = [name for name, each in self._searched.items() if not each.field.many]
        core = View(
            "index",
            [*sorted(self._decoded), *own],
            f"{core_schema(declared, names)};{code_schema(app)}",
            self.apply,
            sorted(events - self._decoded),
            version,
        )
        classes = [*declared.events.values(), *(each.state for each in declared.deciders.values())]
        contracts = "\n".join(schema_text(record_of(each)) for each in classes)
        typed = View(
            "index",
            [*sorted(events), *own],
            f"{core.tables};{typed_schema(declared)}",
            partial(self.apply, is_typed=True),
            version=f"{version}/{blake2b(contracts.encode(), digest_size=8).hexdigest()}",
        )
        return replace(core, wider=typed)

    def _rules(self) -> tuple[Iterable[str], ...]:
        return self._failures, self._reversals, self._finals, self._keyed, self._reasons

    def _is_decoded(self, name: str) -> bool:
        """Return whether more of an event counts than its key and its type."""
        is_step_by_value = name in self._declared.steps and name not in self._keyed and bool(self._declared.saga_field)
        return is_step_by_value or name in self._reasons or name in self._of_events

    def apply(
        self, db: sqlite3.Connection, record: Record, value: Any, *, is_typed: bool = False
    ) -> Iterable[Hashable]:
        """Write what one record means."""
        if record.topic in self._waits.changelogs:
            about = changelog_key(key_text(record))
            self._waits.changed(db, record, about, value)
            if about.kind != "state":
                return ()
            if is_typed and about.decider in self._states:
                self._typed_state(db, record, about, value)
            return self._changed(db, record, about, value)
        if record.topic in self._waits.parked:
            self._waits.parked_input(db, record, value)
            return ()
        self._acts.apply(db, record, value)
        if isinstance(value, JournalEntry):
            self._code.apply(db, record, value)
        return () if record.topic in self._acts.services else self._happened(db, record, value, is_typed=is_typed)

    def _happened(self, db: sqlite3.Connection, record: Record, value: Any, *, is_typed: bool) -> Iterable[Hashable]:
        name = self._log.external.type_of(record) or ""
        saga, at_ms = self._saga(record, name, value), record.timestamp_ms
        place = record.topic, record.partition, record.offset
        ids = record.event_id, record.source, record.subject, record.correlation_id, record.causation_id
        key = None if record.key is None else key_text(record)
        number = db.execute(_EVENT, (saga, *place, key, at_ms, name, *ids)).lastrowid
        if value is None:
            if record.value is not None and name in self._events and (is_typed or record.topic in self._decoded):
                db.execute("INSERT OR IGNORE INTO _unread VALUES (?, ?, ?)", place)
        elif is_typed and name in self._fields:
            event = masked(value)  # whatever rights the log was opened with
            values = [_value(each.type.value, getattr(event, each.name)) for each in self._fields[name]]
            db.execute(self._inserts[name], (number, *values))
        if saga is None:
            return ()
        fails, reverses = name in self._failures, name in self._reversals
        if reverses or not db.execute(_MORE, (saga, at_ms, fails)).rowcount:
            db.execute(_STEP, (saga, at_ms, fails, reverses))
        story = record.correlation_id or record.event_id
        if db.execute("INSERT OR IGNORE INTO _stories VALUES (?, ?)", (story, saga)).rowcount:
            self._waits.join(db, story, saga)
        if name in self._finals or name in self._failures:
            self._turned(db, saga, record, name, value)
        if name in self._of_events and value is not None:
            self._found_by(db, saga, name, value)
        return [saga]

    def _saga(self, record: Record, name: str, value: Any) -> str | None:
        """Return the saga that an event is a step of; None for one that is no step, or cannot be read."""
        if name not in self._declared.steps:
            return None
        if not self._declared.saga_field:
            return record.correlation_id
        if name in self._keyed:
            return None if record.key is None else key_text(record)
        found = getattr(value, self._declared.saga_field, None)
        return None if found is None else str(found)

    def _turned(self, db: sqlite3.Connection, saga: str, record: Record, name: str, value: Any) -> None:
        place = f"{record.timestamp_ms:015d}/{record.topic}/{record.partition:06d}/{record.offset:015d}"
        convert = self._reasons.get(name)
        found = None if convert is None else getattr(value, "reason", None)
        reason = None if found is None or convert is None else convert(found)
        if name in self._finals:
            is_good = name not in self._failures and name not in self._reversals
            db.execute(_END, (saga, place, record.timestamp_ms, snake_case(name), reason, is_good))
        if name in self._failures:
            db.execute(_FAILED, (saga, place, snake_case(name) if reason is None else reason))

    def _found_by(self, db: sqlite3.Connection, saga: str, name: str, value: Any) -> None:
        fields = [each.field for each in self._of_events[name]]
        stored = {each.name: each.kind.stored(getattr(value, each.field)) for each in fields}
        for each in fields:
            if each.many and stored[each.name] is not None:
                row = each.name, stored[each.name], saga
                db.execute("INSERT OR IGNORE INTO _values VALUES (?, ?, ?)", row)
        _set(db, saga, {each.name: stored[each.name] for each in fields if not each.many})

    def _changed(self, db: sqlite3.Connection, record: Record, about: ChangelogKey, value: Any) -> Iterable[Hashable]:
        sagas, saga = self._log.choreography.sagas, about.key
        if sagas is not None and sagas.decider.name == about.decider and sagas.decider.key == self._declared.saga_field:
            status = None if value is None else sagas.state_of(value)
            if status is not None:
                overdue_at = None if status.overdue_at is None else int(status.overdue_at.timestamp() * 1000)
                db.execute(_STATE, (saga, status.name, status.is_overdue, overdue_at, record.timestamp_ms))
            else:
                db.execute("UPDATE _sagas SET state = NULL, is_overdue = 0, overdue_at = NULL WHERE saga = ?", (saga,))
        fields = [each.field for each in self._of_states.get(about.decider, ())]
        stored = {e.name: None if value is None else e.kind.stored(getattr(value, e.field)) for e in fields}
        _set(db, saga, stored)
        return [saga]

    def _typed_state(self, db: sqlite3.Connection, record: Record, about: ChangelogKey, value: Any) -> None:
        """Write a state's fields; personal ones are not shown."""
        name, fields = self._states[about.decider]
        table, place = quoted(f"_{name}"), (about.key, record.partition)
        db.execute(f"DELETE FROM {table} WHERE key = ? AND partition = ?", place)  # noqa: S608  names of deciders
        if value is not None:
            values = [_value(each.type.value, getattr(value, each.name)) if each.is_shown else None for each in fields]
            row = about.key, *values, record.causation_id, iso_ms(record.timestamp_ms), record.partition
            db.execute(f"INSERT INTO {table} VALUES (?{', ?' * (len(row) - 1)})", row)  # noqa: S608  as above


def _set(db: sqlite3.Connection, saga: str, values: Mapping[str, object]) -> None:
    if values:
        sets = ", ".join(f'"{name}" = ?' for name in values)
        db.execute(f"UPDATE _sagas SET {sets} WHERE saga = ?", (*values.values(), saga))  # noqa: S608  names that are declared


def _by_source(
    searched: Mapping[str, Searched],
) -> tuple[dict[str, list[Searched]], dict[str, list[Searched]]]:
    """Return what is searchable of events, by type, and of states, by decider."""
    events, states = dict[str, list[Searched]](), dict[str, list[Searched]]()
    for each in searched.values():
        if each.decider:
            states.setdefault(each.decider, []).append(each)
        else:
            events.setdefault(contract_of(each.field.cls).type, []).append(each)
    return events, states


def _value(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)
