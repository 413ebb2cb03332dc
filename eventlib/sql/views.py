"""The schema in SQLite: tables of facts, whose names begin with `_`, and a view for each table that questions name."""

from collections.abc import Iterable, Iterator

from eventlib.model.event import contract_of
from eventlib.model.signatures import name_of
from eventlib.queries.index_columns import quoted
from eventlib.sql.columns import COLLATIONS
from eventlib.sql.tables import META, Declared, Field, awaited, event_fields, event_table, state_fields, state_table
from eventlib.values import snake_case

_FACTS = """
CREATE TABLE _events (
    n INTEGER PRIMARY KEY, saga TEXT, topic TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL, key TEXT,
    recorded_at TEXT NOT NULL, type TEXT NOT NULL, id TEXT, source TEXT, subject TEXT, correlation_id TEXT, causation_id TEXT
);
CREATE INDEX _events_saga ON _events (saga) WHERE saga IS NOT NULL;
CREATE INDEX _events_id ON _events (id);
CREATE INDEX _events_cause ON _events (causation_id) WHERE causation_id IS NOT NULL;
CREATE TABLE _sagas (
    saga TEXT PRIMARY KEY, first_at TEXT NOT NULL, last_at TEXT NOT NULL, steps INTEGER NOT NULL, failures INTEGER NOT NULL,
    compensations INTEGER NOT NULL, ending_place TEXT, ending_at TEXT, ending_type TEXT, ending_reason TEXT,
    failure_place TEXT, failure_at TEXT, failure_type TEXT, failure_reason TEXT
) WITHOUT ROWID;
CREATE TABLE _unread (topic TEXT, partition INTEGER, "offset" INTEGER, PRIMARY KEY (topic, partition, "offset")) WITHOUT ROWID;
CREATE TABLE _pending (id TEXT PRIMARY KEY, parked_reason TEXT, since TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE _due (
    service TEXT, decider TEXT, partition INTEGER, key TEXT, name TEXT, saga TEXT, due_at TEXT NOT NULL,
    PRIMARY KEY (service, decider, partition, key, name)
) WITHOUT ROWID;
CREATE INDEX _due_saga ON _due (saga) WHERE saga IS NOT NULL;
CREATE TABLE _parked_keys (
    service TEXT, partition INTEGER, name TEXT, decider TEXT, key TEXT, first INTEGER NOT NULL, count INTEGER NOT NULL,
    reason TEXT, PRIMARY KEY (service, partition, name)
) WITHOUT ROWID;
CREATE TABLE _parked_inputs (
    service TEXT, partition INTEGER, "offset" INTEGER, decider TEXT, key TEXT, saga TEXT, parked_at TEXT, reason TEXT,
    input_id TEXT, input_type TEXT, PRIMARY KEY (service, partition, "offset")
) WITHOUT ROWID;
CREATE INDEX _parked_inputs_key ON _parked_inputs (service, partition, decider, key, "offset");
CREATE VIEW deadlines AS SELECT service, decider, name, key, saga, due_at, NULL AS passed_at, NULL AS cancelled_at FROM _due
"""
_STEPS = """
CREATE VIEW saga_steps AS
SELECT s.saga AS {key}, s.recorded_at AS recorded_at, s.type AS type, s.id AS id, s.source AS source,
s.correlation_id AS correlation_id, s.causation_id AS causation_id, {cause_type} AS cause_type, {cause_at} AS cause_at,
unix_millis(s.recorded_at) - unix_millis({cause_at}) AS since_cause_ms, s.topic AS topic, s.partition AS partition,
s."offset" AS "offset" FROM _events AS s WHERE s.saga IS NOT NULL
"""
_CAUSE = """coalesce(
(SELECT c.{0} FROM _events AS c WHERE c.id = s.causation_id AND c.saga = s.saga ORDER BY c.recorded_at, c.type LIMIT 1),
(SELECT c.{0} FROM _events AS c WHERE c.id = s.causation_id ORDER BY c.recorded_at, c.type LIMIT 1))"""
_SAGAS = """
CREATE VIEW sagas AS SELECT saga, first_at AS started_at, ending_at AS ended_at, {outcome} AS outcome,
coalesce(ending_reason, CASE WHEN ending_type IS NULL OR ending_type IN ({turned}) THEN coalesce(failure_reason, {failure}) END)
AS reason, unix_millis(ending_at) - unix_millis(first_at) AS duration_ms, steps, failures, compensations, last_at,
CASE WHEN ending_type IS NULL THEN {waits} END AS waits_for FROM _sagas AS s
"""
_EFFECTS = """
SELECT e.id AS id, {service} AS service, {decider} AS decider, {handler} AS handler, {port} AS port, e.subject AS key,
{saga} AS saga, e.recorded_at AS requested_at,
CASE WHEN p.id IS NULL THEN (SELECT a.recorded_at {answer}) END AS answered_at,
CASE WHEN p.id IS NULL THEN (SELECT a.type {answer}) WHEN p.parked_reason IS NULL THEN 'open' ELSE 'parked' END AS outcome,
p.parked_reason AS parked_reason, p.since AS parked_at, {request} AS request
FROM {table} AS f JOIN _events AS e ON e.n = f._n LEFT JOIN _pending AS p ON p.id = e.id
WHERE e.source = {source}
"""
_ANSWER = "FROM _events AS a WHERE a.causation_id = e.id AND a.source = e.source ORDER BY a.n LIMIT 1"
_PARKED = """
CREATE VIEW parked AS
SELECT i.service AS service, i.decider AS decider, i.key AS key, i.saga AS saga, i.parked_at AS parked_at,
CASE WHEN i."offset" = k.first THEN k.reason ELSE i.reason END AS reason, i.input_id AS input_id, i.input_type AS input_type,
NULL AS released_at, NULL AS how
FROM _parked_keys AS k JOIN _parked_inputs AS i USING (service, partition, decider, key) WHERE i."offset" >= k.first
{effects}
"""
_PARKED_EFFECTS = """
UNION ALL SELECT service, decider, key, saga, parked_at, parked_reason, id, request, NULL, NULL
FROM _effects WHERE outcome = 'parked'
"""


def schema(declared: Declared) -> str:
    """Return the statements that make the tables and views of a choreography."""
    effects = " UNION ALL ".join(_effects(declared))
    made = [_FACTS, *_of_events(declared), *_of_states(declared)]
    causes = {f"cause_{name}": _CAUSE.format(column) for name, column in (("type", "type"), ("at", "recorded_at"))}
    made.append(_STEPS.format(key=quoted(declared.saga_field or "saga"), **causes))
    made.append(_sagas(declared))
    none = "SELECT NULL AS id, NULL AS service, NULL AS decider, NULL AS handler, NULL AS port, NULL AS key, NULL AS saga, "
    none += "NULL AS requested_at, NULL AS answered_at, NULL AS outcome, NULL AS parked_reason, NULL AS parked_at, NULL AS request WHERE 0"
    made.append(f"CREATE VIEW _effects AS {effects or none}")
    made.append(
        "CREATE VIEW effects AS SELECT id, service, decider, handler, port, key, saga, requested_at, answered_at, outcome, "
        "unix_millis(answered_at) - unix_millis(requested_at) AS latency_ms FROM _effects"
    )
    made.append(_PARKED.format(effects=_PARKED_EFFECTS))
    return ";".join(each.strip().rstrip(";") for each in made)


def _of_events(declared: Declared) -> Iterator[str]:
    meta = ", ".join(f"e.{quoted(name)} AS {quoted(name)}" for name in META)
    for event in declared.events.values():
        name, fields = event_table(event), event_fields(event)
        columns = "".join(f", {quoted(each.column)} {each.type.declared}" for each in fields)
        shown = _shown(fields)
        facts = quoted(f"_{name}")
        yield f"CREATE TABLE {facts} (_n INTEGER PRIMARY KEY{columns})"
        yield f"CREATE VIEW {quoted(name)} AS SELECT {meta}{shown} FROM {facts} AS f LEFT JOIN _events AS e ON e.n = f._n"  # noqa: S608  names of fields


def _of_states(declared: Declared) -> Iterator[str]:
    for decider in declared.deciders.values():
        columns = "".join(f", {quoted(each.column)} {each.type.declared}" for each in state_fields(decider))
        yield (
            f"CREATE TABLE {quoted('_' + state_table(decider))} (key TEXT{columns}, changed_by TEXT, changed_at TEXT, "
            "partition INTEGER, PRIMARY KEY (key, partition))"
        )
        shown = f"f.key AS key{_shown(state_fields(decider))}, f.changed_by AS changed_by, f.changed_at AS changed_at"
        table = quoted("_" + state_table(decider))
        yield f"CREATE VIEW {quoted(state_table(decider))} AS SELECT {shown}, f.partition AS partition FROM {table} AS f"  # noqa: S608  names of fields


def _shown(fields: Iterable[Field]) -> str:
    """Return the columns of facts as a view has them: texts that say a number or a time compare as that."""
    return "".join(
        f", f.{quoted(each.column)}{_collated(each.type.declared)} AS {quoted(each.column)}" for each in fields
    )


def _collated(declared: str) -> str:
    return f" COLLATE {COLLATIONS[declared]}" if declared in COLLATIONS else ""


def _sagas(declared: Declared) -> str:
    outcomes = " ".join(f"WHEN {_text(name)} THEN {_text(snake_case(name))}" for name in declared.types(final=True))
    names = " ".join(f"WHEN {_text(name)} THEN {_text(snake_case(name))}" for name in declared.types(failing=True))
    return _SAGAS.format(
        outcome=f"CASE ending_type {outcomes} ELSE 'open' END" if outcomes else "'open'",
        failure=f"CASE failure_type {names} END" if names else "NULL",
        turned=_texts(declared.types(failing=True, reversing=True)),
        waits=_waits(declared),
    )


def _waits(declared: Declared) -> str:
    """Return what an open saga waits for: the first of the effects that it has asked more often than it was answered.

    Then what such an effect awaits, as long as the deadline is there that ends that.
    """
    cases = []
    for decider in declared.choreography.deciders:
        for request, effect in decider.effects.items():
            asked, answers = contract_of(request).type, _texts(contract_of(each).type for each in effect.emits)
            label = f"effect:{effect.ask.port or '-'}/{getattr(effect.ask.call, '__name__', request.__name__)}"
            cases.append(
                f"WHEN (SELECT count(*) FROM _events AS q WHERE q.saga = s.saga AND q.type = {_text(asked)}) > "  # noqa: S608  names of types
                f"(SELECT count(*) FROM _events AS q JOIN _events AS a ON a.causation_id = q.id AND a.saga = s.saga "
                f"WHERE q.saga = s.saga AND q.type = {_text(asked)} AND a.type IN ({answers})) THEN {_text(label)}"
            )
    cases += [
        f"WHEN EXISTS (SELECT 1 FROM _due AS d WHERE d.saga = s.saga AND d.decider = {_text(each.decider)} "  # noqa: S608  names
        f"AND d.name = {_text(each.deadline)}) THEN {_text(each.label)}"
        for each in awaited(declared.choreography)
    ]
    return f"CASE {' '.join(cases)} ELSE 'event' END" if cases else "'event'"


def _effects(declared: Declared) -> Iterator[str]:
    app = declared.choreography
    for service in app.services:
        for decider in service.deciders:
            for request, effect in decider.effects.items():
                if contract_of(request).type not in declared.events:
                    continue
                is_keyed = declared.saga_field and decider.key == declared.saga_field
                yield _EFFECTS.format(
                    service=_text(service.name),
                    decider=_text(decider.name),
                    handler=_text(name_of(effect.ask.call)),
                    port="NULL" if effect.ask.port is None else _text(effect.ask.port),
                    saga="e.subject" if is_keyed else "e.saga" if declared.saga_field else "e.correlation_id",
                    answer=_ANSWER,
                    request=_text(contract_of(request).type),
                    table=quoted("_" + event_table(request)),
                    source=_text(f"{service.emits_as}/{decider.name}"),
                )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Iterable[str]) -> str:
    return ", ".join(map(_text, values))
