"""What the shop's events say, in one wide row each: every record is read and decoded once, whatever tables need it."""

import json
from collections.abc import Mapping
from functools import reduce
from typing import Any, Unpack

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro

from analytics.asking import schemas
from analytics.columns import struct_of
from analytics.events import events, has_avro, header_of
from analytics.log import log
from analytics.schemas import resolves_alike, writers_of
from analytics.selection import Only
from eventlib.codec.avro.derive import record_of
from eventlib.codec.avro.types import Json, schema_json
from eventlib.codec.framed import HEADER_BYTES
from eventlib.event import Event, contract_of
from services import shop
from services.order.events import OrderPlaced
from services.stock.events import StockReceived

EVENTS: tuple[type[Event], ...] = tuple(
    event for event in shop.events if "order_id" in event.model_fields or event is StockReceived
)
"""What tables are made of: all that happens in a saga, and what is put on the shelves."""

TOPICS = tuple(sorted({contract_of(event).topic.name for event in EVENTS}))

META = ("topic", "partition", "offset", "recorded_at", "type", "id", "source", "correlation_id", "causation_id")

_FIELDS = (
    *("order_id", "sku", "line_no", "quantity", "customer_id", "country", "amount_cents", "refunded_cents"),
    *("currency", "reason", "tracking", "placed_at", "lines"),
)
_ID = "schema id"


def facts(spark: SparkSession, url: str, **only: Unpack[Only]) -> DataFrame:
    """Return one row for each record of `EVENTS`: `META`, and the fields of any of them, NULL where it has none such.

    Of `topics`, if any are named, else of `TOPICS`.
    A record that cannot be decoded, which the services have parked, has NULL in `order_id` and `sku`.
    """
    texts = schemas(url)
    return reduce(
        DataFrame.unionAll, [_of_topic(spark, url, topic, texts, only) for topic in only.get("topics") or TOPICS]
    )


def _of_topic(spark: SparkSession, url: str, topic: str, texts: Mapping[int, str], only: Only) -> DataFrame:
    here = [event for event in EVENTS if contract_of(event).topic.name == topic]
    written = {event: writers_of(record_of(event), texts) for event in here}
    asked: Only = {**only, "topics": [topic], "types": [contract_of(event).type for event in here]}
    if all(contract_of(event).request for event in here):  # who asked for what: the facts that follow say it again
        found = log(spark, url, **asked)
        return _row(found, {"order_id": f.col("key")})
    if has_avro() and all(_alike(event, writers) for event, writers in written.items()):
        fields = [name for name in _FIELDS if any(name in event.model_fields for event in here)]
        event = _decoded(
            [json.loads(text) | {_ID: number} for each in written.values() for number, text in each.items()], fields
        )
        found = log(spark, url, **asked).select(
            *META, f.inline(f.array(event))
        )  # decoded once, whatever is asked of it
        return _row(found, {name: f.col(name) for name in fields})
    return reduce(DataFrame.unionAll, [_in_python(spark, url, event, only) for event in here])


def _alike(event: type[Event], writers: Mapping[int, str]) -> bool:
    return all(resolves_alike(record_of(event), json.loads(text)) for text in writers.values())


def _in_python(spark: SparkSession, url: str, event: type[Event], only: Only) -> DataFrame:
    found = events(spark, url, event, strict=False, **only)
    return _row(found, {name: f.col(name) for name in _FIELDS if name in event.model_fields})


def _row(found: DataFrame, fields: Mapping[str, Column]) -> DataFrame:
    kinds = {field.name: field.dataType for field in _STRUCT.fields}
    columns = [fields.get(name, f.lit(None)).cast(kinds[name]).alias(name) for name in _FIELDS]
    return found.select(*META, *columns)


def _decoded(writers: list[dict[str, Json]], fields: list[str]) -> Column:
    """Return a struct of fields, whichever event it is; what was written alike is read by one decoder."""
    reader = json.dumps(_record([{"name": name, "type": _or_null(_AVRO[name]), "default": None} for name in fields]))
    alike = dict[str, list[int]]()
    for writer in writers:
        plain = [{"name": field["name"], "type": field["type"]} for field in writer["fields"]]
        alike.setdefault(json.dumps(_record(plain)), []).append(writer[_ID])
    rest = f.substring(f.col("value"), HEADER_BYTES + 1, 0x7FFFFFFF - HEADER_BYTES)
    options = {"avroSchema": reader, "mode": "PERMISSIVE"}
    found = [(numbers, from_avro(rest, text, options)) for text, numbers in alike.items()]
    header = f.substring("value", 1, HEADER_BYTES)
    event: Column = f.when(f.lit(False), from_avro(rest, reader, options))
    for numbers, decoded in found:
        event = event.when(header.isin(*(f.lit(header_of(number)) for number in numbers)), decoded)
    return event


def _record(fields: list[dict[str, Json]]) -> Json:
    return {"type": "record", "name": "Fact", "fields": fields}


def _or_null(kind: Json) -> Json:
    return kind if isinstance(kind, list) else ["null", kind]


def _columns() -> tuple[dict[str, Json], t.StructType]:
    """Return what the fields are in Avro and in Spark: the same in every event that has them."""
    avro, columns = dict[str, Json](), dict[str, t.StructField]()
    sources: tuple[type[Event], ...] = (OrderPlaced, *EVENTS)
    for event in sources:
        whole: Any = schema_json(record_of(event))
        avro |= {field["name"]: field["type"] for field in whole["fields"] if field["name"] not in avro}
        columns |= {field.name: field for field in struct_of(record_of(event)).fields if field.name not in columns}
    return avro, t.StructType([columns[name] for name in _FIELDS])


_AVRO, _STRUCT = _columns()
