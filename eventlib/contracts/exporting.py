"""A choreography's contracts in the forms that others work with: generated, never written by hand."""

import json
from collections.abc import Callable
from typing import Any

from eventlib.choreography import Choreography
from eventlib.codec.avro.derive import record_of
from eventlib.codec.avro.types import Record, schema_json
from eventlib.codec.json.schema import json_schema
from eventlib.contracts.asyncapi import asyncapi
from eventlib.contracts.spark import spark_ddl
from eventlib.errors import WiringError
from eventlib.event import contract_of


def exported(choreography: Choreography, form: str) -> dict[str, str]:
    """Return the files of a form, by their names: one for each event; of `asyncapi` a single one.

    Forms: asyncapi, avsc, jsonschema, proto, spark. Raises: WiringError for another one, and for an event that a
    form cannot say.
    """
    if form == "asyncapi":
        return {f"{choreography.name}.asyncapi.json": _json(asyncapi(choreography))}
    if form not in _FORMS:
        raise WiringError(f"there is no form {form!r}: known are asyncapi, {', '.join(_FORMS)}")
    ending, write = _FORMS[form]
    own = [event for event in choreography.events if contract_of(event).foreign is None]
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
