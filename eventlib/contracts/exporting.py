"""A choreography's contracts in the forms that others work with, among them columns of a Spark table."""

import json
from collections.abc import Callable
from typing import Any

from eventlib.codec.json.format import json_schema
from eventlib.contracts.asyncapi import asyncapi
from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import (
    NULL,
    Array,
    Choice,
    Exact,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    schema_json,
)

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


def exported(choreography: Choreography, form: str) -> dict[str, str]:
    """Return the files of a form, by their names: one for each event; of `asyncapi` a single one.

    Forms: asyncapi, avsc, jsonschema, proto, spark. Raises: WiringError for another one, and for an event that a
    form cannot express.
    """
    if form == "asyncapi":
        return {f"{choreography.name}.asyncapi.json": _json(asyncapi(choreography))}
    if form not in _FORMS:
        raise WiringError(f"there is no form {form!r}: known are asyncapi, {', '.join(_FORMS)}")
    ending, write = _FORMS[form]
    own = [event for event in choreography.events if contract_of(event).external is None]
    return {f"{contract_of(event).type}.{ending}": write(record_of(event)) for event in own}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _proto(record: Record) -> str:
    try:
        from eventlib.codec.protobuf.schema import protobuf_file
        from eventlib.registry.parsing.proto_text import proto_text
    except ModuleNotFoundError as error:
        raise WiringError(f"Protobuf needs the package {error.name}: install eventlib-sagas[schemas]") from error
    return proto_text(protobuf_file(record))


_FORMS: dict[str, tuple[str, Callable[[Record], str]]] = {
    "avsc": ("avsc", lambda record: _json(schema_json(record))),
    "jsonschema": ("schema.json", lambda record: _json(json_schema(record))),
    "proto": ("proto", _proto),
    "spark": ("ddl", lambda record: spark_ddl(record) + "\n"),
}
