"""The tables of any choreography, from its contracts alone: each event's, and one row per saga."""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics import tables as declared
from analytics.audit.application import Application
from analytics.columns import struct_of
from analytics.history.tables import DEADLINES
from analytics.projection import Projection
from analytics.rebuilding.layout import column_of
from analytics.rebuilding.steps import STEPS, Steps
from analytics.schema import SCHEMA
from analytics.tables import Events, Table
from eventlib.errors import WiringError
from eventlib.index.tables import META, SAGAS, AskedFor, Awaited, asked_for, awaited, event_table, is_tabular, reason_of
from eventlib.model.event import Event, contract_of
from eventlib.model.schema.derive import record_of
from eventlib.values import snake_case

_DOCS = {name: doc for name, (_, doc) in META.items()}
PLACE = ("topic", "partition", "offset")
_REASON = "reason"
_FACTS = "saga_facts"


def event_tables(application: Application) -> list[Table]:
    """Return a table for each event that has columns. Raises: WiringError when two would have one name."""
    found = [_event_table(event) for event in application.choreography.events if is_tabular(event)]
    names = [table.name for table in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise WiringError(
            f"two events would have the table {twice[0]}: names of events differ by more than their capitals"
        )
    return found


def _event_table(event: type[Event]) -> Table:
    fields = tuple(each.name for each in record_of(event).fields)
    docs = {column_of(name): event.model_fields[name].description or "" for name in fields}

    kinds = {column_of(each.name): each.dataType for each in struct_of(record_of(event)).fields}
    schema = t.StructType([
        *(SCHEMA[name] for name in META),
        *(t.StructField(name, kinds[name]) for name in map(column_of, fields)),
    ])  # fmt: skip
    where: dict[str, str | bool] = {"decoded": True, "type": contract_of(event).type}
    projection = Projection(schema, {name: name for name in schema.names}, where)
    return Table(
        name=event_table(event),
        make=projection,
        reads={"facts": Events((event,), fields)},
        key=PLACE,
        increment="append",
        columns={name: declared.Column(doc) for name, doc in {**_DOCS, **docs}.items()},
        doc=(event.__doc__ or "").partition("\n")[0],
        projection=projection,
    )


def saga_tables(steps: Steps) -> list[Table]:
    """Return `sagas`, and what is kept to go on with it."""
    return [_saga_facts(steps), _sagas(steps)]


def _saga_facts(steps: Steps) -> Table:
    failing = steps.application.choreography.failures
    telling = tuple(e for e in steps.events if (contract_of(e).final or e in failing) and is_tabular(e))
    reasoned = tuple(event for event in telling if reason_of(event) is not None)
    waits = asked_for(steps.application.choreography)

    def make(saga_steps: DataFrame, **selected: DataFrame) -> DataFrame:
        numbers = _numbers(steps, waits)
        counted = saga_steps.groupBy(f.col(steps.key).alias("saga")).agg(
            *(column.alias(name) for name, column in numbers.items())
        )
        for facts in selected.values():
            place = ("recorded_at", "topic", "partition", "offset", "type")
            reason = f.col(_REASON) if _REASON in facts.columns else f.lit(None)
            told = f.struct(*place, reason.cast("string").alias(_REASON))
            final = f.col("type").isin(*_types(e for e in telling if contract_of(e).final))
            fails = f.col("type").isin(*_types(e for e in telling if e in failing))
            ends = facts.select(
                steps.saga().alias("saga"), f.when(final, told).alias("ending"), f.when(fails, told).alias("failure")
            )
            kept = ends.groupBy("saga").agg(f.min("ending").alias("ending"), f.min("failure").alias("failure"))
            counted = counted.unionByName(kept.filter(f.col("saga").isNotNull()), allowMissingColumns=True)
        return counted

    story = (steps.application.story_field,) if steps.application.story_field else ()
    silent = tuple(event for event in telling if event not in reasoned)
    ends = {"ends": Events(reasoned, (*story, _REASON)), "silent": Events(silent, story)}
    merges = {"first_at": "min", "last_at": "max"} | dict.fromkeys([*_COUNTS, *_asked(waits)], "sum")
    return Table(
        name=_FACTS,
        make=make,
        reads={STEPS: STEPS} | {name: events for name, events in ends.items() if events.types},
        key=("saga",),
        increment="merge",
        merges=merges | (dict.fromkeys(("ending", "failure"), "min") if telling else {}),
        doc="What is kept of each saga, so that new steps can be added.",
        hidden=True,
    )


_COUNTS = ("steps", "failures", "compensations")


def _numbers(steps: Steps, waits: Sequence[AskedFor]) -> dict[str, Column]:
    failing = steps.application.choreography.failures

    def count(condition: Column) -> Column:
        return f.sum(condition.cast("bigint"))

    open_effects = {
        name: count(f.col("type") == request)
        - count(f.col("type").isin(*answers) & f.coalesce(f.col("cause_type") == request, f.lit(False)))
        for name, (request, _, answers) in zip(_asked(waits), waits, strict=True)
    }
    return {
        "first_at": f.min("recorded_at"),
        "last_at": f.max("recorded_at"),
        "steps": f.count("*"),
        "failures": count(f.col("type").isin(*_types(e for e in steps.events if e in failing))),
        "compensations": count(f.col("type").isin(*_types(e for e in steps.events if contract_of(e).reverses))),
        **open_effects,
    }


def _sagas(steps: Steps) -> Table:
    waits = asked_for(steps.application.choreography)
    later = awaited(steps.application.choreography)
    turned = {e for e in steps.events if e in steps.application.choreography.failures or contract_of(e).reverses}

    def make(saga_facts: DataFrame, deadlines: DataFrame | None = None) -> DataFrame:
        has_ended = f.col("ending").isNotNull() if "ending" in saga_facts.columns else f.lit(False)
        ended_at, outcome, reason = f.lit(None).cast("timestamp"), f.lit("open"), f.lit(None).cast("string")
        if "ending" in saga_facts.columns:
            ended_at = f.col("ending.recorded_at")
            outcome = f.lit("open")
            for event in steps.events:
                if contract_of(event).final:
                    name = snake_case(contract_of(event).type)
                    outcome = f.when(f.col("ending.type") == contract_of(event).type, name).otherwise(outcome)
            told = f.coalesce(f.col("failure.reason"), _named(f.col("failure.type")))
            went_wrong = ~has_ended | f.col("ending.type").isin(*_types(turned))
            reason = f.coalesce(f.col("ending.reason"), f.when(went_wrong, told))
        waiting: Column = f.lit("event")
        if deadlines is not None:
            saga_facts = saga_facts.join(_awaiting(deadlines, later), "saga", "left")
            waiting = f.coalesce("awaited", waiting)  # an effect that was not answered comes first, below
        for name, each in reversed([*zip(_asked(waits), waits, strict=True)]):
            waiting = f.when(f.col(name) > 0, each.label).otherwise(waiting)
        took = (f.unix_millis(ended_at) - f.unix_millis("first_at")).alias("duration_ms")
        return saga_facts.filter(f.col("first_at").isNotNull()).select(
            *("saga", f.col("first_at").alias("started_at"), ended_at.alias("ended_at"), outcome.alias("outcome")),
            *(reason.alias("reason"), took, *_COUNTS, "last_at", f.when(~has_ended, waiting).alias("waits_for")),
        )

    return Table(
        name="sagas",
        make=make,
        reads={_FACTS: _FACTS} | ({DEADLINES: DEADLINES} if later else {}),
        key=("saga",),
        columns={name: declared.Column(doc) for name, (_, doc) in SAGAS.columns.items()},
        doc=SAGAS.doc,
    )


def _awaiting(deadlines: DataFrame, later: Sequence[Awaited]) -> DataFrame:
    """Return the sagas with an open deadline of what an effect awaits, and the first of these in their order."""
    labels = [
        f.when(
            (f.col("decider") == each.decider) & (f.col("name") == each.deadline), f.struct(f.lit(n), f.lit(each.label))
        )
        for n, each in enumerate(later)
    ]
    is_open = f.col("passed_at").isNull() & f.col("cancelled_at").isNull() & f.col("saga").isNotNull()
    found = deadlines.filter(is_open).select("saga", f.coalesce(*labels).alias("label")).filter("label IS NOT NULL")
    return found.groupBy("saga").agg(f.min("label").getField("col2").alias("awaited"))


def _named(kind: Column) -> Column:
    return f.lower(f.regexp_replace(kind, r"\W+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_"))


def _types(events: Iterable[type[Event]]) -> list[str]:
    return [contract_of(event).type for event in events]


def _asked(waits: Iterable[AskedFor]) -> list[str]:
    return [f"asked_{snake_case(each.request)}" for each in waits]
