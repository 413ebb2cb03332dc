"""One event's records with its fields as columns, across all its schema versions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Unpack

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import to_arrow_schema

from analytics.asking import schemas
from analytics.columns import struct_of, values_of
from analytics.log import log
from analytics.schema import SCHEMA
from analytics.schemas import resolves_equally, schemas_among, writers_of
from analytics.selection import Only
from eventlib.codec.avro.read import reader_of
from eventlib.codec.wire_format import HEADER_BYTES, MAGIC
from eventlib.errors import ContractError, WiringError
from eventlib.model.event import Contract, Event, ExternalFormat, contract_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import NULL, Record, Union, schema_text

_EVENT = "_event"


def events(
    spark: SparkSession,
    source: str | DataFrame,
    event: type[Event],
    *,
    live: str | None = None,
    strict: bool = True,
    jvm: bool | None = None,
    **only: Unpack[Only],
) -> DataFrame:
    """Return the records of one event on its topic: the columns of `SCHEMA`, then the event's fields in its newest schema.

    `source` is a log's URL, or records from `analytics.log` with the topic `_schemas` among them; `live` is as for `log`. A
    field with the name of a column of `SCHEMA` is the column `event_<name>`. A record that cannot be read as the event makes
    a job fail, with the location of the first; not `strict`, it has NULL in all fields. `jvm` is where the bytes are
    decoded: in the JVM, which accepts what the class's validators would refuse, or by the library's codec in Python; by
    default, in the JVM if it has spark-avro and resolves the schemas like the codec.
    Raises: WiringError when a class has no columns, or the JVM cannot decode it; as `log` does.
    """
    contract, record = contract_of(event), record_of(event)
    if contract.external is None and contract.topic.format != "avro":
        raise WiringError(
            f"{contract.type} is on {contract.topic.name}, whose format is {contract.topic.format}: only Avro has columns "
            "here; take the bytes from `analytics.log`"
        )
    struct = struct_of(record)
    records = _records(spark, source, live, contract, only)
    if contract.external is not None:
        return _spread(_in_python(records, struct, _External(event, contract.external, strict=strict)), struct)
    texts = _schemas(source, live)
    writers = writers_of(record, texts)
    able = has_avro(spark) and all(resolves_equally(record, json.loads(text)) for text in writers.values())
    if jvm and not able:
        raise WiringError(f"{contract.type} cannot be decoded in the JVM here: leave jvm out, to decode it in Python")
    if able if jvm is None else jvm:
        return _spread(_in_jvm(records, record, writers, strict=strict), struct)
    return _spread(_in_python(records, struct, _Ours(event, writers, strict=strict)), struct)


def _records(
    spark: SparkSession, source: str | DataFrame, live: str | None, contract: Contract, only: Only
) -> DataFrame:
    types = () if contract.external is not None else (contract.type,)
    if isinstance(source, str):
        here: Only = {**only, "topics": [contract.topic.name], "types": types}
        return log(spark, source, live=live, **here)
    if only or live:
        raise WiringError(
            f"{', '.join(only) or 'live'} needs a log's URL: join or filter the records themselves instead"
        )
    records = source.filter(f.col("topic") == contract.topic.name)
    return records.filter(f.col("type").isin(*types)) if types else records


def _schemas(source: str | DataFrame, live: str | None) -> Mapping[int, str]:
    if not isinstance(source, str):
        return schemas_among(source)
    return {**schemas(source), **({} if live is None else schemas(live))}


@lru_cache(maxsize=1)
def has_avro(spark: SparkSession) -> bool:
    """Return whether this session decodes Avro in the JVM.

    The function exists without the connector and fails only when a query is analysed, so this analyses one.
    """
    try:
        _ = spark.range(0).select(from_avro(f.lit(b""), '"null"')).schema
    except PySparkException:
        return False
    return True


# --- in the JVM


def _in_jvm(records: DataFrame, record: Record, writers: Mapping[int, str], *, strict: bool) -> DataFrame:
    value = f.col("value")
    required = next((each.name for each in record.fields if not _may_be_null(each.node)), None)
    mode = "FAILFAST" if strict and required is None else "PERMISSIVE"
    options = {"avroSchema": schema_text(record), "mode": mode}
    event: Column = f.lit(None).cast(struct_of(record))
    for number, text in writers.items():
        decoded = from_avro(f.substring(value, HEADER_BYTES + 1, _ALL), text, options).cast(struct_of(record))
        event = f.when(f.substring(value, 1, HEADER_BYTES) == f.lit(header_of(number)), decoded).otherwise(event)
    found = records.withColumn(_EVENT, event)
    if not strict:
        return found
    damaged = f.col(_EVENT).isNull() if required is None else f.col(_EVENT)[required].isNull()
    return found.withColumn(_EVENT, f.when(damaged, _complaint(record.name)).otherwise(f.col(_EVENT)))


_ALL = 0x7FFFFFFF - HEADER_BYTES


def header_of(number: int) -> bytes:
    """Return the header of the bytes that a schema has written."""
    return bytes([MAGIC]) + number.to_bytes(4, "big")


def _may_be_null(node: object) -> bool:
    return node == NULL or (isinstance(node, Union) and NULL in node.branches)


def _complaint(name: str) -> Column:
    place = [f.col("topic"), f.lit("/"), f.col("partition"), f.lit(" at "), f.col("offset")]
    sentence = [f.lit(f"{name} cannot be read from the record "), *place, f.lit(f": {_REMEDY}")]
    return f.raise_error(f.concat(*sentence))


_REMEDY = "see `eventlib parked`, or read with strict=False, which gives its fields as NULL"


# --- in Python


class _Ours:
    """Reads our own events' values; created in each of Spark's workers."""

    def __init__(self, event: type[Event], writers: Mapping[int, str], *, strict: bool) -> None:
        self.event = event
        self.strict = strict
        self._writers = {header_of(number): text for number, text in writers.items()}
        self._readers = dict[bytes, Callable[[bytes], Any]]()

    def __call__(self, value: bytes, _key: str | None) -> Any:
        """Return the event. Raises: ContractError."""
        header = value[:HEADER_BYTES]
        read = self._readers.get(header)
        if read is None:
            if header not in self._writers:
                raise ContractError(f"none of its schemas has written bytes that begin with {header.hex()}")
            schema = json.loads(self._writers[header])
            read = self._readers[header] = reader_of(record_of(self.event), schema, HEADER_BYTES)
        return read(value)


class _External:
    """Reads external events."""

    def __init__(self, event: type[Event], external: ExternalFormat, *, strict: bool) -> None:
        self.event = event
        self.strict = strict
        self._external = external

    def __call__(self, value: bytes, key: str | None) -> Any:
        """Return the event. Raises: ContractError."""
        return self._external.decode(self.event, value, key)


def _in_python(records: DataFrame, struct: t.StructType, read: _Ours | _External) -> DataFrame:
    schema = t.StructType([*SCHEMA.fields, t.StructField(_EVENT, struct)])

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = values_of(record_of(read.event))
        kind = to_arrow_schema(schema).field(_EVENT).type
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in ("value", "key", "topic", "partition", "offset")]
            made = [_read(read, values, row) for row in zip(*columns, strict=True)]
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(made, kind)], names=schema.names)

    return records.select(*SCHEMA.names).mapInArrow(decode, schema)


def _read(read: _Ours | _External, values: Callable[[Any], Any], row: tuple[Any, ...]) -> Any:
    value, key, *place = row
    try:
        if value is None:
            raise ContractError("it has no value")  # noqa: TRY301  told as what cannot be decoded is
        return values(read(value, key))
    except ContractError as error:
        if not read.strict:
            return None
        topic, partition, offset = place
        name = read.event.__name__
        raise ContractError(
            f"{name} cannot be read from the record {topic}/{partition} at {offset} ({error}): {_REMEDY}"
        ) from error


def _spread(found: DataFrame, struct: t.StructType) -> DataFrame:
    fields = [f.col(_EVENT)[name].alias(f"event_{name}" if name in SCHEMA.names else name) for name in struct.names]
    return found.select(*SCHEMA.names, *fields)
