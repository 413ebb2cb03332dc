"""The schema of the index in SQLite: tables of facts, whose names begin with `_`, and a view for each table that questions name.

Times of facts are milliseconds since 1970; views show them as texts. Tables of events' and states' own fields are `typed_schema`.
"""

import re
from collections.abc import Iterable, Iterator

from eventlib.index.columns import COLLATIONS
from eventlib.index.hours import HOURS
from eventlib.index.tables import (
    META,
    Declared,
    Field,
    asked_for,
    awaited,
    event_fields,
    event_table,
    state_fields,
    state_table,
)
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.signatures import name_of
from eventlib.queries.index_columns import quoted

_FACTS = """
CREATE TABLE _events (
    n INTEGER PRIMARY KEY, saga TEXT, topic TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, key TEXT,
    recorded_at INTEGER NOT NULL, type TEXT NOT NULL, id TEXT, source TEXT, subject TEXT, correlation_id TEXT, causation_id TEXT
);
CREATE INDEX _events_saga ON _events (saga) WHERE saga IS NOT NULL;
CREATE INDEX _events_type ON _events (type, saga);
CREATE INDEX _events_id ON _events (id);
CREATE TABLE _sagas (
    saga TEXT NOT NULL, open INTEGER NOT NULL DEFAULT 1, state TEXT, is_overdue INTEGER NOT NULL DEFAULT 0, overdue_at INTEGER,
    outcome TEXT NOT NULL DEFAULT 'open', started_at INTEGER NOT NULL, last_at INTEGER NOT NULL, ended_at INTEGER,
    steps INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0, compensations INTEGER NOT NULL DEFAULT 0,
    _ending_place TEXT, _ending_reason TEXT, _is_good INTEGER NOT NULL DEFAULT 0, _failure_place TEXT, _failure TEXT,
    reason TEXT AS (CASE WHEN _is_good THEN _ending_reason ELSE coalesce(_ending_reason, _failure) END),
    duration_ms INTEGER AS (ended_at - started_at){columns}
);
CREATE UNIQUE INDEX _sagas_saga ON _sagas (saga);
CREATE INDEX _sagas_open ON _sagas (started_at, saga) WHERE open;
CREATE INDEX _sagas_overdue_at ON _sagas (overdue_at) WHERE open;
CREATE TABLE _values (name TEXT, value, saga TEXT, PRIMARY KEY (name, value, saga)) WITHOUT ROWID;
CREATE INDEX _values_of ON _values (saga, name);
CREATE TABLE _stories (correlation_id TEXT, saga TEXT, PRIMARY KEY (correlation_id, saga)) WITHOUT ROWID;
CREATE TABLE _unread (topic TEXT, partition INTEGER, "offset" INTEGER, PRIMARY KEY (topic, partition, "offset")) WITHOUT ROWID;
CREATE TABLE _waits (
    origin TEXT, name TEXT, service TEXT, partition INTEGER, saga TEXT, correlation_id TEXT, decider TEXT NOT NULL,
    kind TEXT NOT NULL, since INTEGER NOT NULL, due_at INTEGER, reason TEXT, key TEXT, effect TEXT, first INTEGER,
    PRIMARY KEY (origin, name, service, partition)
) WITHOUT ROWID;
CREATE INDEX _waits_of ON _waits (saga);
CREATE INDEX _waits_unclaimed ON _waits (correlation_id) WHERE saga IS NULL;
CREATE TABLE _pauses (
    origin TEXT, partition INTEGER, service TEXT, decider TEXT, key TEXT, effect TEXT, reason TEXT,
    PRIMARY KEY (service, origin, partition)
) WITHOUT ROWID;
CREATE TABLE _parked_inputs (
    service TEXT, partition INTEGER, "offset" INTEGER, decider TEXT, key TEXT, saga TEXT, parked_at INTEGER, reason TEXT,
    input_id TEXT, input_type TEXT, PRIMARY KEY (service, partition, "offset")
) WITHOUT ROWID;
CREATE INDEX _parked_inputs_key ON _parked_inputs (service, partition, decider, key, "offset");
CREATE TABLE _acts (
    name TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, what TEXT NOT NULL, service TEXT NOT NULL, about TEXT NOT NULL,
    by TEXT NOT NULL, reason TEXT NOT NULL, bulk TEXT NOT NULL, cause TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX _acts_at ON _acts (at_ms);
CREATE INDEX _acts_bulk ON _acts (bulk, name) WHERE bulk != ''
"""
_SORTED = ("started_at", "last_at", "ended_at", "duration_ms", "state", "outcome", "reason")
_WAITED_FOR = ("name", "kind", "service", "decider", "since", "due_at", "reason")
CAUSES = """
CREATE INDEX IF NOT EXISTS _events_cause ON _events (causation_id) WHERE causation_id IS NOT NULL
"""
"""The index that only questions in SQL about causes and answers need: the first of these makes it."""
_STEPS = """
CREATE VIEW saga_steps AS
SELECT saga AS {key}, TIME(recorded_at) AS recorded_at, type, id, source, correlation_id, causation_id, cause_type,
TIME(caused_at) AS cause_at, recorded_at - caused_at AS since_cause_ms, topic, partition, "offset"
FROM (SELECT s.*, {cause_type} AS cause_type, {cause_at} AS caused_at FROM _events AS s WHERE s.saga IS NOT NULL)
"""
_CAUSE = """coalesce(
(SELECT c.{0} FROM _events AS c WHERE c.id = s.causation_id AND c.saga = s.saga ORDER BY c.recorded_at, c.type LIMIT 1),
(SELECT c.{0} FROM _events AS c WHERE c.id = s.causation_id ORDER BY c.recorded_at, c.type LIMIT 1))"""
_SAGAS = """
CREATE VIEW sagas AS SELECT saga, TIME(started_at) AS started_at, TIME(ended_at) AS ended_at, outcome, reason,
duration_ms, steps, failures, compensations, TIME(last_at) AS last_at, CASE WHEN open THEN {waits} END AS waits_for
FROM _sagas AS s WHERE steps > 0
"""
_EFFECTS = """
SELECT e.id AS id, {service} AS service, {decider} AS decider, {handler} AS handler, {port} AS port, e.subject AS key,
{saga} AS saga, e.recorded_at AS asked_at,
CASE WHEN w.origin IS NULL THEN (SELECT a.recorded_at {answer}) END AS came_at,
CASE WHEN w.origin IS NULL THEN (SELECT a.type {answer}) WHEN w.kind = 'parked' THEN 'parked' ELSE 'open' END AS outcome,
w.reason AS parked_reason, w.since AS parked_at, e.type AS request
FROM _events AS e LEFT JOIN _waits AS w ON w.origin = 'effect/' || e.id WHERE e.type = {request} AND e.source = {source}
"""
_NO_EFFECTS = """
SELECT NULL AS id, NULL AS service, NULL AS decider, NULL AS handler, NULL AS port, NULL AS key, NULL AS saga, NULL AS asked_at,
NULL AS came_at, NULL AS outcome, NULL AS parked_reason, NULL AS parked_at, NULL AS request WHERE 0
"""
_ANSWER = "FROM _events AS a WHERE a.causation_id = e.id AND a.source = e.source ORDER BY a.n LIMIT 1"
_VIEWS = """
CREATE VIEW _effects AS {effects};
CREATE VIEW effects AS SELECT id, service, decider, handler, port, key, saga, TIME(asked_at) AS requested_at,
TIME(came_at) AS answered_at, outcome, came_at - asked_at AS latency_ms FROM _effects;
CREATE VIEW parked AS
SELECT i.service AS service, i.decider AS decider, i.key AS key, i.saga AS saga, TIME(i.parked_at) AS parked_at,
CASE WHEN i."offset" = w.first THEN w.reason ELSE i.reason END AS reason, i.input_id AS input_id, i.input_type AS input_type,
NULL AS released_at, NULL AS how
FROM _waits AS w JOIN _parked_inputs AS i USING (service, partition, decider, key) WHERE i."offset" >= w.first
UNION ALL SELECT service, decider, key, saga, TIME(parked_at), parked_reason, id, request, NULL, NULL
FROM _effects WHERE outcome = 'parked';
CREATE VIEW deadlines AS SELECT service, decider, substr(name, length(decider) + 2) AS name, key, {due_saga} AS saga,
TIME(due_at) AS due_at, NULL AS passed_at, NULL AS cancelled_at FROM _waits WHERE kind = 'deadline'
"""


def core_schema(declared: Declared, attributes: Iterable[str]) -> str:
    """Return the statements that make the tables of facts, with these attributes of sagas, and the views of them."""
    app = declared.choreography
    names = [*attributes]
    indexes = [f'CREATE INDEX "_sagas_{name}" ON _sagas ("{name}", saga)' for name in (*_SORTED, *names)]
    indexes += [f"CREATE INDEX _waits_{name} ON _waits ({name}, saga) WHERE {name} IS NOT NULL" for name in _WAITED_FOR]
    facts = _FACTS.format(columns="".join(f', "{name}"' for name in names))
    causes = {f"cause_{name}": _CAUSE.format(column) for name, column in (("type", "type"), ("at", "recorded_at"))}
    keyed = [each.name for each in app.deciders if each.key and each.key == declared.saga_field]
    due_saga = f"CASE WHEN decider IN ({_texts(keyed)}) THEN key END" if declared.saga_field else "correlation_id"
    made = [
        *(facts, HOURS, *indexes, _STEPS.format(key=quoted(declared.saga_field or "saga"), **causes)),
        _SAGAS.format(waits=_waits(declared)),
        _VIEWS.format(effects=" UNION ALL ".join(_effects(declared)) or _NO_EFFECTS, due_saga=due_saga),
    ]
    return _with_times(made)


def typed_schema(declared: Declared) -> str:
    """Return the statements that make the tables and views of the fields of events and states."""
    return _with_times([*_of_events(declared), *_of_states(declared)])


def _with_times(statements: Iterable[str]) -> str:
    """Return statements as one text, with `TIME(column)` as the expression that shows milliseconds as a time."""
    joined = ";".join(each.strip().rstrip(";") for each in statements)
    return re.sub(r"TIME\(([\w.\"]+)\)", r"strftime('%Y-%m-%dT%H:%M:%fZ', \1 / 1000.0, 'unixepoch')", joined)


def _of_events(declared: Declared) -> Iterator[str]:
    meta = [f"e.{quoted(name)} AS {quoted(name)}" for name in META]
    shown = ", ".join(meta).replace('e."recorded_at"', "TIME(e.recorded_at)")
    for event in declared.events.values():
        name, fields = event_table(event), event_fields(event)
        columns = "".join(f", {quoted(each.column)} {each.type.declared}" for each in fields)
        facts = quoted(f"_{name}")
        yield f"CREATE TABLE {facts} (_n INTEGER PRIMARY KEY{columns})"
        yield f"CREATE VIEW {quoted(name)} AS SELECT {shown}{_shown(fields)} FROM {facts} AS f LEFT JOIN _events AS e ON e.n = f._n"  # noqa: S608  names of fields


def _of_states(declared: Declared) -> Iterator[str]:
    for decider in declared.deciders.values():
        columns = "".join(f", {quoted(each.column)} {each.type.declared}" for each in state_fields(decider))
        table = quoted("_" + state_table(decider))
        yield (
            f"CREATE TABLE {table} (key TEXT{columns}, changed_by TEXT, changed_at TEXT, "
            "partition INTEGER, PRIMARY KEY (key, partition))"
        )
        shown = f"f.key AS key{_shown(state_fields(decider))}, f.changed_by AS changed_by, f.changed_at AS changed_at"
        yield f"CREATE VIEW {quoted(state_table(decider))} AS SELECT {shown}, f.partition AS partition FROM {table} AS f"  # noqa: S608  names of fields


def _shown(fields: Iterable[Field]) -> str:
    """Return the columns of facts as a view has them: texts that say a number or a time compare as that."""
    return "".join(
        f", f.{quoted(each.column)}{_collated(each.type.declared)} AS {quoted(each.column)}" for each in fields
    )


def _collated(declared: str) -> str:
    return f" COLLATE {COLLATIONS[declared]}" if declared in COLLATIONS else ""


def _waits(declared: Declared) -> str:
    """Return what an open saga waits for: the first of the effects that it has asked more often than it was answered.

    Then what such an effect awaits, as long as the deadline is there that ends that.
    """
    app = declared.choreography
    cases = [
        f"WHEN (SELECT count(*) FROM _events AS q WHERE q.saga = s.saga AND q.type = {text(request)}) > "  # noqa: S608  names of types
        f"(SELECT count(*) FROM _events AS q JOIN _events AS a ON a.causation_id = q.id AND a.saga = s.saga "
        f"WHERE q.saga = s.saga AND q.type = {text(request)} AND a.type IN ({_texts(answers)})) THEN {text(label)}"
        for request, label, answers in asked_for(app)
    ]
    cases += [
        f"WHEN EXISTS (SELECT 1 FROM _waits AS d WHERE {_of_saga(app, declared.saga_field, each.decider)} "  # noqa: S608  names
        f"AND d.name = {text(f'{each.decider}.{each.deadline}')}) THEN {text(each.label)}"
        for each in awaited(app)
    ]
    return f"CASE {' '.join(cases)} ELSE 'event' END" if cases else "'event'"


def _of_saga(app: Choreography, field: str, decider: str) -> str:
    if not field:
        return "d.saga = s.saga"
    return f"d.origin = {text(f'state/{decider}/')} || s.saga" if app.decider(decider).key == field else "0"


def _effects(declared: Declared) -> Iterator[str]:
    app = declared.choreography
    for service in app.services:
        for decider in service.deciders:
            for request, effect in decider.effects.items():
                if contract_of(request).type not in declared.events:
                    continue
                is_keyed = declared.saga_field and decider.key == declared.saga_field
                yield _EFFECTS.format(
                    service=text(service.name),
                    decider=text(decider.name),
                    handler=text(name_of(effect.ask.call)),
                    port="NULL" if effect.ask.port is None else text(effect.ask.port),
                    saga="e.subject" if is_keyed else "e.saga" if declared.saga_field else "e.correlation_id",
                    answer=_ANSWER,
                    request=text(contract_of(request).type),
                    source=text(f"{service.emits_as}/{decider.name}"),
                )


def text(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Iterable[str]) -> str:
    return ", ".join(map(text, values))
