"""JSON as a format of events, with a JSON Schema."""

import json
from typing import Any

from pydantic_core import from_json

from eventlib.codec.avro.types import NO_DEFAULT, Record, version_in
from eventlib.codec.avro.upcast import upcast_from
from eventlib.codec.format import Format, Read, Write
from eventlib.codec.json.schema import json_schema
from eventlib.codec.json.write import json_writer
from eventlib.codec.registry import JSON, Schema
from eventlib.codec.shape import guarded, shape_of
from eventlib.errors import ContractError


class JsonFormat(Format):
    """JSON, UTF-8, one object for each event."""

    def schema(self, record: Record) -> Schema:
        """See `Format.schema`."""
        json_writer(record, b"")  # refuses what JSON cannot tell apart, before the schema is anywhere
        return Schema(json.dumps(json_schema(record), separators=(",", ":"), ensure_ascii=False), JSON)

    def version_in(self, text: str) -> int:
        """See `Format.version_in`."""
        return version_in(json.loads(text))

    def writer(self, record: Record, header: bytes) -> Write:
        """See `Format.writer`."""
        return json_writer(record, header)

    def reader(self, record: Record, text: str, header_bytes: int) -> Read:
        """See `Format.reader`."""
        try:
            schema = json.loads(text)
            written = version_in(schema)
            properties = schema["properties"] if schema.get("additionalProperties") is False else None
        except (ValueError, LookupError, AttributeError) as error:
            raise ContractError(
                f"{record.name} cannot be read from the schema that wrote it: {error!s:.200}"
            ) from error
        if written == record.version and properties is not None:
            _refuse_missing(record, properties)
        shape = shape_of(record, is_json=True) if written == record.version else upcast_from(record, written)

        def read(data: bytes) -> Any:
            raw = from_json(data[header_bytes:], allow_inf_nan=False)
            if not isinstance(raw, dict):
                raise TypeError(f"an object is expected, not {raw!r:.60}")
            return shape(raw)

        return guarded(record, read)


def _refuse_missing(record: Record, properties: Any) -> None:
    for field in record.fields:
        if field.default is NO_DEFAULT and not field.fills and field.written_as(properties) is None:
            raise ContractError(
                f"{record.name}.{field.name} is not in the schema that wrote the bytes; give it a default, or its "
                "former name as an alias"
            )
