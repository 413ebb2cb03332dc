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
"""The header that stands for all of a record's, where they are damaged; its value is what is there."""

SCHEMA = t.StructType([t.StructField(name, kind) for name, kind in _COLUMNS.items()])
"""One row for each record; `key` is UTF-8 text, `schema_id` the one in front of an Avro `value`."""

STORED = t.StructType([field for field in SCHEMA.fields if field.name != "schema_id"])
"""What a source has to give: all but what follows from the value."""


def key_as_text(key: Column) -> Column:
    """Return a key's bytes as text; where they are not UTF-8, all that is not ASCII is escaped."""
    letters = f.split(f.decode(key, "ISO-8859-1"), "")
    each = f.transform(
        letters,
        lambda one: f.when(f.ascii(one) < 128, one).otherwise(f.concat(f.lit("\\x"), f.lower(f.hex(f.ascii(one))))),  # noqa: PLR2004  the first that is not
    )
    return f.when(f.is_valid_utf8(key.cast("string")), key.cast("string")).otherwise(f.array_join(each, ""))
