"""The columns of the log as a DataFrame."""

from pyspark.sql import Column
from pyspark.sql import functions as f
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

UNREADABLE = "(unreadable)"
"""The header that replaces all damaged headers of a record; its value is their raw bytes."""

SCHEMA = t.StructType([t.StructField(name, kind) for name, kind in _COLUMNS.items()])
"""One row per record; `key` is UTF-8 text, `schema_id` the one in front of an Avro `value`."""

STORED = t.StructType([field for field in SCHEMA.fields if field.name != "schema_id"])
"""The columns that a source provides: all except those derived from the value."""


def key_as_text(key: Column) -> Column:
    """Return a key's bytes as text; if they are not UTF-8, with all non-ASCII bytes escaped."""
    letters = f.split(f.decode(key, "ISO-8859-1"), "")
    each = f.transform(
        letters,
        lambda one: f.when(f.ascii(one) < 128, one).otherwise(f.concat(f.lit("\\x"), f.lower(f.hex(f.ascii(one))))),  # noqa: PLR2004  the first that is not
    )
    return f.when(f.is_valid_utf8(key.cast("string")), key.cast("string")).otherwise(f.array_join(each, ""))
