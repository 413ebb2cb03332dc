"""The steps of sagas: each event of each saga, with its cause and the time since it.

A cause is nearly always in the same saga, so all rows of a saga are brought together once, and causes are looked up among
them. The few that are elsewhere are looked up by id afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.application import Application
from analytics.columns import struct_of
from analytics.rebuilding.layout import Fields, column_of
from analytics.schema import SCHEMA
from eventlib.errors import WiringError
from eventlib.index.tables import is_keyed
from eventlib.model.event import Event, contract_of
from eventlib.model.schema.derive import record_of

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
        """Return the saga of a fact; NULL where only its field tells it, and cannot be decoded."""
        story = self.application.story_field
        if not story:
            return f.col("correlation_id")
        keyed = [contract_of(event).type for event in self.events if is_keyed(event, story)]
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

    def looked_up(self, rows: DataFrame, earlier: DataFrame | None) -> DataFrame:
        """Return steps, each with its cause if that is in its saga, among them or `earlier` ones."""
        found = rows.select(*self.before.names).withColumn("is_new", f.lit(True))
        if earlier is not None:
            known = earlier.select(*self.known.names).withColumn("is_new", f.lit(False))
            found = found.unionByName(known, allowMissingColumns=True)
        return found.repartition(self.key).mapInArrow(
            partial(_looked_up, key=self.key, names=self.schema.names), self.schema
        )

    @cached_property
    def schema(self) -> t.StructType:
        """The columns of the table."""
        kinds = {each.name: each for each in (*SCHEMA.fields, *_OF_CAUSE, t.StructField(self.key, t.StringType()))}
        kinds |= {column_of(name): t.StructField(column_of(name), self._kind(name)) for name in self.wanted}
        names = [self.key, *_BEFORE_FIELDS, *(each.name for each in _OF_CAUSE), *map(column_of, self.wanted), *_PLACE]
        return t.StructType([kinds[name] for name in names])

    def _kind(self, name: str) -> t.DataType:
        structs = [struct_of(record_of(event)) for event in self.events if not contract_of(event).request]
        return next((each[name].dataType for each in structs if name in each.names), t.StringType())

    @property
    def before(self) -> t.StructType:
        """The columns of steps before their causes are looked up."""
        return t.StructType([each for each in self.schema.fields if each not in _OF_CAUSE])

    @property
    def known(self) -> t.StructType:
        """The columns of earlier steps among which causes are looked up."""
        return t.StructType([each for each in self.schema.fields if each.name in {self.key, *CAUSES}])

    def with_other_causes(self, lacking: DataFrame, causes: DataFrame) -> DataFrame:
        """Return steps that are lacking a cause with the first of `causes` that has its id."""
        first = causes.groupBy("id").agg(f.min("recorded_at").alias("found_at"), f.min("type").alias("found_type"))
        first = first.withColumnRenamed("id", "causation_id")
        kept = [name for name in lacking.columns if name not in {"cause_type", "cause_at", "since_cause_ms"}]
        found = lacking.select(*kept).join(first, "causation_id", "left")
        named = found.withColumnsRenamed({"found_type": "cause_type", "found_at": "cause_at"})
        since = f.unix_millis("recorded_at") - f.unix_millis("cause_at")
        return named.withColumn("since_cause_ms", since).select(*self.schema.names)


def lacks_cause() -> Column:
    """Return whether a step has a cause that is not known yet."""
    return f.col("causation_id").isNotNull() & f.col("cause_type").isNull()


def lacks_cause_in(steps: pa.Table) -> pa.Array:
    """Return of each step what `lacks_cause` does."""
    return pc.and_(pc.is_valid(steps["causation_id"]), pc.is_null(steps["cause_type"]))


def with_causes(new: pa.Table, known: pa.Table, key: str) -> pa.Table:
    """Return steps with the cause that each has in its saga, among them and what is `known`: of equal ids, the first in time."""
    wanted = [key, *CAUSES]
    pool = pa.concat_tables([new.select(wanted), known.select(wanted)])
    index = _places_of(new["causation_id"], pool["id"])
    if index is None:  # an id is there twice, perhaps in two sagas
        pool = pool.take(pc.sort_indices(pool, [("recorded_at", "ascending"), ("type", "ascending")]))
        ids = pc.binary_join_element_wise(pool[key], pool["id"], "\n")
        asked = pc.binary_join_element_wise(new[key], new["causation_id"], "\n")
        index = pc.index_in(asked, ids.combine_chunks(), skip_nulls=True)
    is_same = pc.equal(pool[key].take(index), new[key])
    index = pc.if_else(is_same, index, pa.scalar(None, index.type))
    at = pool["recorded_at"].take(index)
    since_ms = pc.divide(pc.subtract(new["recorded_at"].cast(pa.int64()), at.cast(pa.int64())), 1_000)
    for name, column in {"cause_type": pool["type"].take(index), "cause_at": at, "since_cause_ms": since_ms}.items():
        new = new.append_column(name, column)
    return new


def _places_of(asked: pa.ChunkedArray, ids: pa.ChunkedArray) -> pa.Array | None:
    """Return where each text is in `ids`, NULL if it is not there; None if two of these are equal."""
    places = pa.chunked_array([*ids.chunks, *asked.chunks], ids.type).combine_chunks().dictionary_encode().indices
    if len(ids) and pc.max(places[: len(ids)]).as_py() != len(ids) - 1:
        return None
    wanted = places[len(ids) :]
    return pc.if_else(pc.less(wanted, len(ids)), wanted, pa.scalar(None, wanted.type))


def _looked_up(batches: Iterable[pa.RecordBatch], key: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Look up the causes of a task's new rows, as `with_causes` does."""
    found = list(batches)
    if found:
        rows = pa.Table.from_batches(found)
        whole = with_causes(rows.filter(rows["is_new"]), rows.filter(pc.invert(rows["is_new"])), key)
        yield from whole.select(names).to_batches(max_chunksize=_AT_ONCE)
