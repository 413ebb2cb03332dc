"""Events as facts: records with those fields decoded, as columns, that a table uses; each record decoded once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from analytics.asking import schemas
from analytics.events import events as records_of
from analytics.events import has_avro, header_of
from analytics.log import log
from analytics.rebuilding.layout import (
    META,
    RESERVED,
    Fields,
    Layout,
    column_of,
    fact_schema,
    fields_of,
    layouts_of,
    required_field,
)
from analytics.schema import SCHEMA
from analytics.schemas import resolves_equally, writers_of
from analytics.selection import Only
from analytics.tables import Events
from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.errors import WiringError
from eventlib.model.event import Event, contract_of
from eventlib.model.schema.derive import record_of

Writers = Mapping[int, tuple[type[Event], str]]
"""The schemas that have written to a topic, by number, each with its event."""

_ROW = (*META, "key", "schema_id")


@dataclass(frozen=True)
class Facts:
    """Events on a log, within `only`."""

    spark: SparkSession
    url: str
    only: Only = field(default_factory=Only)

    def records(self, events: Sequence[type[Event]]) -> DataFrame:
        """Return the records of some events, external ones among them; their type is the event's."""
        ours = [contract_of(event) for event in events if contract_of(event).external is None]
        found = list[DataFrame]()
        if ours:
            topics = sorted({each.topic.name for each in ours})
            asked: Only = {**self.only, "topics": topics, "types": [each.type for each in ours]}
            found.append(log(self.spark, self.url, **asked))
        for contract in (contract_of(event) for event in events):
            if contract.external is not None:
                there: Only = {**self.only, "topics": [contract.topic.name]}
                found.append(log(self.spark, self.url, **there).withColumn("type", f.lit(contract.type)))
        return reduce(DataFrame.unionAll, found)

    def of(self, fields: Fields) -> list[tuple[Layout, DataFrame]]:
        """Return one row per record of the events: `RESERVED`, and their fields, NULL where an event lacks one.

        Events whose fields do not fit into one row are in a DataFrame of their own. A record that cannot be decoded has
        NULL in all fields, and is not `decoded`.
        """
        return [(layout, self._rows(layout, fields)) for layout in layouts_of(fields)]

    def _rows(self, layout: Layout, fields: Fields) -> DataFrame:
        frames, decoded, plain = list[DataFrame](), dict[str, Writers](), list[type[Event]]()
        in_jvm = list[type[Event]]()
        for event in layout.events:
            contract = contract_of(event)
            if not fields[event]:
                plain.append(event)
            elif contract.external is None and (writers := self._for_jvm(event)) is not None:
                decoded[contract.topic.name] = {**decoded.get(contract.topic.name, {}), **writers}
                in_jvm.append(event)
            else:
                frames.append(self._in_python(event, layout))
        if plain:
            frames.append(_row(self.records(plain).select(*_ROW, f.lit(True).alias("decoded")), layout, {}))
        if in_jvm:  # in one scan: with one each, Spark would plan, and Java compile, all of it again
            frames.append(self._in_jvm(in_jvm, decoded, layout))
        return reduce(DataFrame.unionAll, frames)

    @cached_property
    def texts(self) -> Mapping[int, str]:
        """The schemas on the log, by number."""
        return schemas(self.url)

    def _for_jvm(self, event: type[Event]) -> Writers | None:
        """Return the schemas that have written an event; None when the JVM would not resolve them as the codec does."""
        if not has_avro(self.spark):
            return None
        writers = writers_of(record_of(event), self.texts)
        alike = all(resolves_equally(record_of(event), json.loads(text)) for text in writers.values())
        return {number: (event, text) for number, text in writers.items()} if alike else None

    def _in_jvm(self, events: Sequence[type[Event]], writers: Mapping[str, Writers], layout: Layout) -> DataFrame:
        names = list(layout.avro)
        struct = _decoded(writers, layout)
        # In an array, it is decoded only once.
        found = self.records(events).select(*_ROW, f.inline(f.array(struct)))
        found = found.toDF(*_ROW, *map(_inner, names))
        whole = f.lit(True)
        for event in events:
            required = required_field(event)
            if required is not None and required in layout.avro:
                whole = f.when(f.col("type") == contract_of(event).type, f.col(_inner(required)).isNotNull()).otherwise(
                    whole
                )
        there = {name: f.col(_inner(name)) for name in names}
        return _row(found.withColumn("decoded", whole), layout, there)

    def _in_python(self, event: type[Event], layout: Layout) -> DataFrame:
        found = records_of(self.spark, self.url, event, strict=False, **self.only)
        there = {
            name: f.col(f"event_{name}" if name in SCHEMA.names else name)
            for name in layout.avro
            if name in event.model_fields
        }
        required = required_field(event)
        whole = f.lit(True) if required is None or required not in there else there[required].isNotNull()
        named = {each: f.col(each) for each in _ROW} | {"type": f.lit(contract_of(event).type), "decoded": whole}
        return _row(found, layout, there, named)


def facts_of(spark: SparkSession, url: str, events: Events) -> DataFrame:
    """Return the records of some events on a log as an application's tables get them: those that can be decoded.

    Raises: WiringError when fields of one name have types that do not go together; as `analytics.log` does.
    """
    return rows_of(Facts(spark, url).of(fields_of([events])), events, "facts_of")


def rows_of(facts: Sequence[tuple[Layout, DataFrame]], events: Events, where: str) -> DataFrame:
    """Return the rows of some events among facts, each of which was decoded."""
    found, types = list[DataFrame](), dict[str, t.DataType]()
    for layout, rows in facts:
        here = [event for event in events.types if event in layout.events]
        for name, kind in layout.types.items() if here else ():
            if name in events.fields and types.setdefault(name, kind) != kind:
                told = ", ".join(contract_of(event).type for event in events.types)
                raise WiringError(f"{where}: the field {name!r} has different types in {told}")
        if here:
            columns = {name: f.col(column_of(name)) if name in layout.types else f.lit(None) for name in events.fields}
            ours = rows.filter(f.col("decoded") & f.col("type").isin(*(contract_of(event).type for event in here)))
            found.append(ours.select(*META, "key", *(each.alias(column_of(name)) for name, each in columns.items())))
    return reduce(DataFrame.unionAll, found)


def _inner(name: str) -> str:
    return f"_field_{name}"


def _row(
    found: DataFrame, layout: Layout, there: Mapping[str, Column], named: Mapping[str, Column] | None = None
) -> DataFrame:
    meta = [(named or {}).get(name, f.col(name)).alias(name) for name in RESERVED]
    fields = [there.get(name, f.lit(None)).cast(kind).alias(column_of(name)) for name, kind in layout.types.items()]
    return found.select(*meta, *fields)


def _decoded(writers: Mapping[str, Writers], layout: Layout) -> Column:
    """Return a struct of fields, of any event, decoded by its topic's writer schemas."""
    rest = f.substring(f.col("value"), HEADER_BYTES + 1, 0x7FFFFFFF - HEADER_BYTES)
    reader = layout.reader()
    event: Column = f.when(f.lit(False), from_avro(rest, reader, _options(reader)))
    for topic, of_topic in writers.items():
        event = event.when(f.col("topic") == topic, _written_by(of_topic, rest, layout))
    return event


def _options(reader: str) -> dict[str, str]:
    return {"avroSchema": reader, "mode": "PERMISSIVE"}


def _written_by(writers: Writers, rest: Column, layout: Layout) -> Column:
    """Return the decoded bytes after a header; schemas with equal encoding share one decoder."""
    alike, reader = dict[tuple[str, str], list[int]](), layout.reader()
    for number, (event, text) in writers.items():
        plain = [{"name": each["name"], "type": each["type"]} for each in json.loads(text)["fields"]]
        lacks = {name for name in event.model_fields if name in layout.avro} - {each["name"] for each in plain}
        key = (json.dumps(fact_schema(plain)), layout.reader(event) if lacks else reader)
        alike.setdefault(key, []).append(number)
    found: Column = f.when(f.lit(False), from_avro(rest, reader, _options(reader)))
    for (text, read), numbers in alike.items():
        ours = f.substring("value", 1, HEADER_BYTES).isin(*(f.lit(header_of(number)) for number in numbers))
        found = found.when(ours, from_avro(rest, text, _options(read)))
    return found
