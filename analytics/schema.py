"""The columns of the log as a DataFrame."""

from pyspark.sql import types as t

HEADERS = t.ArrayType(t.StructType([t.StructField("name", t.StringType()), t.StructField("value", t.BinaryType())]))

_COLUMNS: dict[str, t.DataType] = {
    "topic": t.StringType(),
    "partition": t.IntegerType(),
    "offset": t.LongType(),
    "recorded_at": t.TimestampType(),
    "key": t.StringType(),
    "type": t.StringType(),
    "id": t.StringType(),
    "source": t.StringType(),
    "subject": t.StringType(),
    "sequence": t.LongType(),
    "correlation_id": t.StringType(),
    "causation_id": t.StringType(),
    "traceparent": t.StringType(),
    "schema_id": t.IntegerType(),
    "value": t.BinaryType(),
    "headers": HEADERS,
}

SCHEMA = t.StructType([t.StructField(name, kind) for name, kind in _COLUMNS.items()])
"""One row for each record; `key` is UTF-8 text, `schema_id` the one in front of an Avro `value`."""

STORED = t.StructType([field for field in SCHEMA.fields if field.name != "schema_id"])
"""What a source has to give: all but what follows from the value."""
