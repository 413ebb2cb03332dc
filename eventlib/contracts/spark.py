"""An event's fields as columns of a Spark table, in the DDL that `StructType.fromDDL` and `CREATE TABLE` take."""

from eventlib.codec.avro.types import NULL, Array, Choice, Exact, Node, Plain, Record, StringMap, Symbols, Union
from eventlib.errors import WiringError

_MOST_DIGITS = 38
"""What a decimal of Spark's holds; one with more is text."""

_PLAIN = {
    ("string", None): "STRING",
    ("long", None): "BIGINT",
    ("double", None): "DOUBLE",
    ("boolean", None): "BOOLEAN",
    ("bytes", None): "BINARY",
    ("long", "timestamp-micros"): "TIMESTAMP",
    ("int", "date"): "DATE",
    ("long", "time-micros"): "BIGINT",  # Spark has no time of day: microseconds since midnight
    ("string", "uuid"): "STRING",
    ("null", None): "VOID",
}


def spark_ddl(record: Record) -> str:
    """Return a class's columns. Raises: WiringError for a class that contains itself, which no table can."""
    return ", ".join(f"`{field.name}` {_type(field.node, (record,))}" for field in record.fields)


def _type(node: Node, above: tuple[Record, ...]) -> str:  # noqa: PLR0911  one answer for each kind
    match node:
        case Plain(avro=avro, logical=logical):
            return _PLAIN[avro, logical]
        case Exact(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})" if precision <= _MOST_DIGITS else "STRING"
        case Choice(avro=avro):
            return _PLAIN[avro, None]
        case Symbols():
            return "STRING"
        case Array(items=items):
            return f"ARRAY<{_type(items, above)}>"
        case StringMap(values=values):
            return f"MAP<STRING, {_type(values, above)}>"
        case Record():
            return _struct(node, above)
        case Union(branches=branches):
            if node.optional is not None:
                return _type(node.optional, above)
            members = [branch for branch in branches if branch != NULL]
            inner = ", ".join(f"`member{i}`: {_type(each, above)}" for i, each in enumerate(members))
            return f"STRUCT<{inner}>"


def _struct(record: Record, above: tuple[Record, ...]) -> str:
    if record in above:
        raise WiringError(f"{record.name} contains itself, which no table can: leave it out, or export avsc")
    inner = ", ".join(f"`{field.name}`: {_type(field.node, (*above, record))}" for field in record.fields)
    return f"STRUCT<{inner}>"
