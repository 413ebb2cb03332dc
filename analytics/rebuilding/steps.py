"""The steps of sagas: each event of each saga, with its cause and the time since it.

A cause is nearly always in the same saga, so all rows of a saga are brought together once, and causes are looked up among
them. The few that are elsewhere are looked up by id afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.application import Application
from analytics.rebuilding.layout import Fields, column_of
from analytics.stores import Made
from eventlib.errors import WiringError
from eventlib.model.event import Event, contract_of

STEPS = "saga_steps"
CAUSES = ("id", "recorded_at", "type")
_BEFORE_FIELDS = ("recorded_at", "type", "id", "source", "correlation_id", "causation_id")
_OF_CAUSE = (
    t.StructField("cause_type", t.StringType()),
    t.StructField("cause_at", t.TimestampType()),
    t.StructField("since_cause_ms", t.LongType()),
)
_PLACE = ("topic", "partition", "offset")
_AT_ONCE = 16_384


@dataclass(frozen=True)
class Steps:
    """Which events are steps of sagas, what tells the saga, and which of their fields are wanted."""

    application: Application
    events: tuple[type[Event], ...]
    wanted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse fields that no event has. Raises: WiringError."""
        known = {name for event in self.events for name in event.model_fields}
        for name in self.wanted:
            if name not in known:
                raise WiringError(f"StepFields: no event of a saga has the field {name!r}")

    @property
    def key(self) -> str:
        """The column that has the saga."""
        return self.application.story_field or "saga"

    @property
    def fields(self) -> Fields:
        """The fields to decode of each event."""
        return {event: self._fields(event) for event in self.events}

    def _fields(self, event: type[Event]) -> tuple[str, ...]:
        story, contract = self.application.story_field, contract_of(event)
        if contract.request:  # its own fields are repeated by what follows
            return () if contract.key == story or not story else (story,)
        return tuple(name for name in (story, *self.wanted) if name in event.model_fields)

    def saga(self) -> Column:
        """Return the saga of a fact; NULL where it cannot be decoded."""
        story = self.application.story_field
        if not story:
            return f.col("correlation_id")
        keyed = [contract_of(e).type for e in self.events if contract_of(e).request and contract_of(e).key == story]
        field = f.col(column_of(story)).cast("string")
        return f.when(f.col("type").isin(*keyed), f.col("key")).otherwise(field) if keyed else field

    def rows(self, facts: DataFrame) -> DataFrame:
        """Return the steps among facts, without their causes."""
        requests = [contract_of(event).type for event in self.events if contract_of(event).request]
        extra = {
            name: f.col(column_of(name)) if column_of(name) in facts.columns else f.lit(None) for name in self.wanted
        }
        if requests:
            extra = {name: f.when(~f.col("type").isin(*requests), column) for name, column in extra.items()}
        types = [contract_of(event).type for event in self.events]
        found = facts.filter(f.col("type").isin(*types)).select(
            self.saga().alias(self.key),
            *_BEFORE_FIELDS,
            *(column.alias(column_of(name)) for name, column in extra.items()),
            *_PLACE,
        )
        return found.filter(f.col(self.key).isNotNull())

    def by_saga(self, rows: DataFrame, earlier: DataFrame | None) -> DataFrame:
        """Return steps, those of a saga together, and what may be the cause of some among `earlier` ones."""
        found = rows.withColumn("is_new", f.lit(True))
        if earlier is not None:
            known = earlier.select(self.key, *CAUSES).withColumn("is_new", f.lit(False))
            found = found.unionByName(known, allowMissingColumns=True)
        return found.repartition(self.key)

    @property
    def with_causes(self) -> Made:
        """Return what makes rows of the table, each with its cause if that is in the same saga, of those `by_saga`."""
        return partial(_looked_up, key=self.key, columns=self._columns)

    def schema(self, rows: DataFrame) -> t.StructType:
        """Return the schema of the table, from steps without their causes."""
        known = {each.name: each for each in (*rows.schema.fields, *_OF_CAUSE)}
        return t.StructType([known[name] for name in self._columns])

    @property
    def _columns(self) -> list[str]:
        return [self.key, *_BEFORE_FIELDS, *(each.name for each in _OF_CAUSE), *map(column_of, self.wanted), *_PLACE]

    def with_other_causes(self, steps: DataFrame, lacking: DataFrame, causes: DataFrame) -> DataFrame:
        """Return steps, those that are `lacking` a cause with the first of `causes` that has its id."""
        first = causes.groupBy("id").agg(f.min("recorded_at").alias("found_at"), f.min("type").alias("found_type"))
        first = first.withColumnRenamed("id", "causation_id")
        kept = [name for name in lacking.columns if name not in {"cause_type", "cause_at", "since_cause_ms"}]
        found = lacking.select(*kept).join(first, "causation_id", "left")
        named = found.withColumnsRenamed({"found_type": "cause_type", "found_at": "cause_at"})
        since = f.unix_millis("recorded_at") - f.unix_millis("cause_at")
        whole = named.withColumn("since_cause_ms", since).select(*self._columns)
        return steps.filter(~lacks_cause()).unionByName(whole)


def lacks_cause() -> Column:
    """Return whether a step has a cause that is not known yet."""
    return f.col("causation_id").isNotNull() & f.col("cause_type").isNull()


def _looked_up(batches: Iterable[pa.RecordBatch], key: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Look up causes within each saga; for an id that is there twice, the first time counts."""
    found = list(batches)
    if not found:
        return
    rows = pa.Table.from_batches(found)
    del found
    order = pc.sort_indices(rows, [("recorded_at", "ascending"), ("type", "ascending")])
    ids = pc.binary_join_element_wise(rows[key], rows["id"], "\n").combine_chunks().take(order)
    asked = pc.binary_join_element_wise(rows[key], rows["causation_id"], "\n")
    index = order.take(pc.index_in(asked, ids))
    at = rows["recorded_at"].take(index)
    since_ms = pc.divide(pc.subtract(rows["recorded_at"].cast(pa.int64()), at.cast(pa.int64())), 1_000)
    for name, column in {"cause_type": rows["type"].take(index), "cause_at": at, "since_cause_ms": since_ms}.items():
        rows = rows.append_column(name, column)
    yield from rows.filter(rows["is_new"]).select(columns).to_batches(max_chunksize=_AT_ONCE)
