"""Data quality: rows that break what their contract or their table's columns declare.

Such a row stays in its table: it is what the log says, and older contracts may have allowed it. It is noted in `quarantine`
with its place, so that it can be left out by a join, and a run can be told to publish nothing.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.columns import literal
from analytics.rebuilding.constraints import constraints_of
from analytics.rebuilding.layout import Layout
from analytics.schemas import writers_of
from analytics.tables import Column as About
from analytics.tables import Table
from eventlib.errors import TerminalError
from eventlib.index.tables import event_table
from eventlib.model.event import Event, contract_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json

QUARANTINE = "quarantine"
_LONGEST = 200
_PLACE = {"topic": t.StringType(), "partition": t.IntegerType(), "offset": t.LongType()}
_NOTHING = "table string, rule string, topic string, partition int, offset bigint, value string, is_older boolean"


class RowsRefused(TerminalError):
    """New rows break what their columns declare, and the run was told to publish nothing then."""


class Broken(NamedTuple):
    """How many new rows of a table break a rule; `is_older` ones were written by an older version of the contract."""

    table: str
    rule: str
    is_older: bool
    rows: int


def refuse_broken(broken: Sequence[Broken]) -> None:
    """Refuse rows that break a rule of today's contract or table. Raises: RowsRefused."""
    refused = [each for each in broken if not each.is_older]
    if refused:
        first, rows = refused[0], sum(each.rows for each in refused)
        more = f", and {len(refused) - 1} more rules are broken" if len(refused) > 1 else ""
        raise RowsRefused(
            f"{rows} new rows break a rule, and nothing is published: {first.rows} of {first.table} break {first.rule}{more}; "
            f"without --enforce they are noted in the table {QUARANTINE}"
        )


def quarantine_table() -> Table:
    """Return the table of rows that break a rule."""
    docs = {
        "table": "The table that has the row.",
        "rule": "What it breaks: a column, and what its contract or its table says of it.",
        "topic": "The topic of its record; NULL for a row made of several.",
        "partition": "The partition of its record.",
        "offset": "The offset of its record.",
        "value": "The column's value as text, at most 200 characters of it.",
        "is_older": "Whether an older version of the contract has written it, which may have allowed it.",
    }
    return Table(
        name=QUARANTINE,
        make=lambda: None,  # type: ignore[arg-type,return-value]  # the engine makes it of all others
        reads={},
        columns={name: About(doc) for name, doc in docs.items()},
        doc="One row per rule that a row breaks.",
    )


def broken_events(
    facts: Sequence[tuple[Layout, DataFrame]], made: Sequence[str], texts: Mapping[int, str]
) -> list[DataFrame]:
    """Return the rows that break their contracts, of the events whose tables are made: one scan for each layout."""
    found = list[DataFrame]()
    for layout, rows in facts:
        notes = {event: _notes(event) for event in layout.events if event_table(event) in made}
        notes = {event: each for event, each in notes.items() if each}
        if not notes:
            continue
        cases = [f"WHEN {literal(contract_of(event).type)} THEN array({', '.join(notes[event])})" for event in notes]
        broken = f.expr(f"explode(array_compact(CASE type {' '.join(cases)} END))").alias("note")
        newest = [number for event in notes for number in _newest(event, texts)]
        is_older = f.coalesce(~f.col("schema_id").isin(*newest), f.lit(False)).alias("is_older")
        found.append(rows.filter("decoded").select(*_PLACE, is_older, broken))
    return [_spread(each) for each in found]


def broken_rows(table: Table, rows: DataFrame) -> DataFrame | None:
    """Return the rows of an application's table that break what its columns declare; None when nothing is declared."""
    notes = [
        f.when(broken, f.struct(*_told(table.name, f"{name}: {test.name}", name)))
        for name, test in table.tests()
        if (broken := test.broken_by(name)) is not None
    ]
    if not notes:
        return None
    place = [f.col(name) if name in rows.columns else f.lit(None).cast(kind) for name, kind in _PLACE.items()]
    named = [column.alias(name) for name, column in zip(_PLACE, place, strict=True)]
    broken = f.explode(f.array_compact(f.array(*notes))).alias("note")
    return _spread(rows.select(*named, f.lit(False).alias("is_older"), broken))


def nothing_broken(spark: SparkSession) -> DataFrame:
    """Return no rows."""
    return spark.createDataFrame([], _NOTHING)


def _notes(event: type[Event]) -> list[str]:
    return [
        f"CASE WHEN NOT ({each.holds}) THEN struct({literal(event_table(event))} AS table, "
        f"{literal(each.name)} AS rule, substring({each.value}, 1, {_LONGEST}) AS value) END"
        for each in constraints_of(event)
    ]


def _told(table: str, rule: str, column: str) -> tuple[Column, Column, Column]:
    value = f.substring(f.col(f"`{column}`").cast("string"), 1, _LONGEST)
    return f.lit(table).alias("table"), f.lit(rule).alias("rule"), value.alias("value")


def _spread(rows: DataFrame) -> DataFrame:
    return rows.select("note.table", "note.rule", *_PLACE, "note.value", "is_older")


def _newest(event: type[Event], texts: Mapping[int, str]) -> list[int]:
    """Return the numbers of the schemas that an event's class writes today; of the newest one that is known, if none."""
    written, today = writers_of(record_of(event), texts), schema_json(record_of(event))
    return [number for number, text in written.items() if json.loads(text) == today] or sorted(written)[-1:]
