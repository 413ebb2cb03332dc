"""The shop's events as facts: records with only those fields decoded, as columns, that a table uses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from analytics.asking import schemas
from analytics.columns import struct_of
from analytics.events import events, has_avro, header_of
from analytics.log import log
from analytics.schemas import resolves_equally, writers_of
from analytics.selection import Only
from eventlib.codec.avro.derive import record_of
from eventlib.codec.avro.types import Json, schema_json
from eventlib.codec.wire_format import HEADER_BYTES
from eventlib.model.event import Event, contract_of
from services import shop
from services.order.events import OrderPlaced
from services.stock.events import StockReceived

EVENTS: tuple[type[Event], ...] = tuple(
    event for event in shop.events if "order_id" in event.model_fields or event is StockReceived
)
"""The events of the tables: all steps of a saga, and deliveries of stock."""

TOPICS = tuple(sorted({contract_of(event).topic.name for event in EVENTS}))

META = ("topic", "partition", "offset", "recorded_at", "type", "id", "source", "correlation_id", "causation_id")

Writers = Mapping[int, str]
"""The schemas that have written to a topic, by number."""


@dataclass(frozen=True)
class Facts:
    """The shop's events on a log, within `only`; `staged` are their records if they were written to files first."""

    spark: SparkSession
    url: str
    only: Only = field(default_factory=Only)
    staged: DataFrame | None = None

    def records(self, events: Sequence[type[Event]]) -> DataFrame:
        """Return the records of some events."""
        contracts = [contract_of(event) for event in events]
        topics, types = sorted({each.topic.name for each in contracts}), [each.type for each in contracts]
        if self.staged is None:
            asked: Only = {**self.only, "topics": topics, "types": types}
            return log(self.spark, self.url, **asked)
        return self.staged.filter(f.col("topic").isin(*topics) & f.col("type").isin(*types))

    def of(self, events: Sequence[type[Event]], fields: Sequence[str]) -> DataFrame:
        """Return one row per record of some events: `META`, and these fields, NULL where an event lacks one.

        A record that cannot be decoded, which the services have parked, has NULL in all of them.
        """
        by_topic = dict[str, list[type[Event]]]()
        for event in events:
            by_topic.setdefault(contract_of(event).topic.name, []).append(event)
        frames, decoded = list[DataFrame](), dict[str, Writers]()
        for topic, here in by_topic.items():
            if all(
                contract_of(event).request for event in here
            ):  # the request's own fields are repeated by what follows
                frames.append(_row(self.records(here), {"order_id": f.col("key")}, fields))
                continue
            written = {event: writers_of(record_of(event), self._texts) for event in here}
            if has_avro(self.spark) and all(_alike(event, writers) for event, writers in written.items()):
                decoded[topic] = {number: text for each in written.values() for number, text in each.items()}
            else:
                frames += [self._in_python(event, fields) for event in here]
        if decoded:  # in one scan: with one each, Spark would plan, and Java compile, all of it again
            frames.append(self._in_jvm([each for topic in decoded for each in by_topic[topic]], decoded, fields))
        return reduce(DataFrame.unionAll, frames)

    @cached_property
    def _texts(self) -> Mapping[int, str]:
        return schemas(self.url)

    def _in_jvm(
        self, events: Sequence[type[Event]], writers: Mapping[str, Writers], fields: Sequence[str]
    ) -> DataFrame:
        there = [name for name in fields if any(name in event.model_fields for event in events)]
        # In an array, it is decoded only once.
        found = self.records(events).select(*META, f.inline(f.array(_decoded(writers, there))))
        return _row(found, {name: f.col(name) for name in there}, fields)

    def _in_python(self, event: type[Event], fields: Sequence[str]) -> DataFrame:
        found = events(self.spark, self.url, event, strict=False, **self.only)
        return _row(found, {name: f.col(name) for name in fields if name in event.model_fields}, fields)


def _alike(event: type[Event], writers: Mapping[int, str]) -> bool:
    return all(resolves_equally(record_of(event), json.loads(text)) for text in writers.values())


def _row(found: DataFrame, there: Mapping[str, Column], fields: Sequence[str]) -> DataFrame:
    columns = [there.get(name, f.lit(None)).cast(_COLUMNS[name]).alias(name) for name in fields]
    return found.select(*META, *columns)


def _decoded(writers: Mapping[str, Writers], fields: Sequence[str]) -> Column:
    """Return a struct of fields, of any event, decoded by its topic's writer schemas."""
    nullable = [{"name": name, "type": _or_null(_AVRO[name]), "default": None} for name in fields]
    options = {"avroSchema": json.dumps(_record(nullable)), "mode": "PERMISSIVE"}
    rest = f.substring(f.col("value"), HEADER_BYTES + 1, 0x7FFFFFFF - HEADER_BYTES)
    event: Column = f.when(f.lit(False), from_avro(rest, options["avroSchema"], options))
    for topic, of_topic in writers.items():
        event = event.when(f.col("topic") == topic, _written_by(of_topic, rest, options))
    return event


def _written_by(writers: Writers, rest: Column, options: dict[str, str]) -> Column:
    """Return the decoded bytes after a header; schemas with equal encoding share one decoder."""
    alike = dict[str, list[int]]()
    for number, text in writers.items():
        plain = [{"name": each["name"], "type": each["type"]} for each in json.loads(text)["fields"]]
        alike.setdefault(json.dumps(_record(plain)), []).append(number)
    event: Column = f.when(f.lit(False), from_avro(rest, options["avroSchema"], options))
    for text, numbers in alike.items():
        ours = f.substring("value", 1, HEADER_BYTES).isin(*(f.lit(header_of(number)) for number in numbers))
        event = event.when(ours, from_avro(rest, text, options))
    return event


def _record(fields: list[dict[str, Json]]) -> Json:
    return {"type": "record", "name": "Fact", "fields": fields}


def _or_null(kind: Json) -> Json:
    return kind if isinstance(kind, list) else ["null", kind]


def _columns() -> tuple[dict[str, Json], dict[str, t.DataType]]:
    """Return the fields' types in Avro and in Spark: equal in every event that has them."""
    avro, columns = dict[str, Json](), dict[str, t.DataType]()
    sources: tuple[type[Event], ...] = (OrderPlaced, *EVENTS)
    for event in sources:
        whole: Any = schema_json(record_of(event))
        avro |= {each["name"]: each["type"] for each in whole["fields"] if each["name"] not in avro}
        columns |= {each.name: each.dataType for each in struct_of(record_of(event)).fields if each.name not in columns}
    return avro, columns


_AVRO, _COLUMNS = _columns()
