"""JSON as a format of events, with a JSON Schema (draft 7) from the same fields as the Avro schema."""

import json
from typing import Any

from pydantic_core import from_json

from eventlib.codec.avro.read import upcast_from
from eventlib.codec.format import Format, Read, Write
from eventlib.codec.json.write import json_writer
from eventlib.codec.plain_values import guarded, shape_of
from eventlib.codec.registry import JSON, Schema
from eventlib.errors import ContractError
from eventlib.model.schema.types import (
    NO_DEFAULT,
    NULL,
    VERSION,
    Array,
    Choice,
    Exact,
    Field,
    Json,
    Node,
    Plain,
    Record,
    StringMap,
    Symbols,
    Union,
    version_in,
)

DRAFT = "http://json-schema.org/draft-07/schema#"
ALIASES = "x-aliases"

_PLAIN: dict[tuple[str, str | None], Json] = {
    ("null", None): {"type": "null"},
    ("string", None): {"type": "string"},
    ("long", None): {"type": "integer"},
    ("double", None): {"type": "number"},
    ("boolean", None): {"type": "boolean"},
    ("bytes", None): {"type": "string", "contentEncoding": "base64"},
    ("long", "timestamp-micros"): {"type": "string", "format": "date-time"},
    ("int", "date"): {"type": "string", "format": "date"},
    ("long", "time-micros"): {"type": "string", "format": "time"},
    ("string", "uuid"): {"type": "string", "format": "uuid"},
}


def json_schema(record: Record) -> dict[str, Any]:
    """Return a class's JSON Schema: the same in every process."""
    definitions = dict[str, Json]()
    found = _Schemas(record, definitions).object(record)
    made: dict[str, Any] = {"$schema": DRAFT, "title": record.name}
    if record.version > 1:
        made[VERSION] = record.version
    made |= found
    if definitions:
        made["definitions"] = definitions
    return made


class _Schemas:
    """The schemas of one root's types; records but the root are defined once."""

    def __init__(self, root: Record, definitions: dict[str, Json]) -> None:
        self._root = root
        self._definitions = definitions

    def of(self, node: Node) -> Json:  # noqa: PLR0911  one answer for each kind
        match node:
            case Plain(avro=avro, logical=logical):
                return dict(_PLAIN[avro, logical])
            case Exact():
                return {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
            case Choice(avro=avro):
                return dict(_PLAIN[avro, None])
            case Symbols(members=members):
                return {"type": "string", "enum": list(members)}
            case Array(items=items):
                return {"type": "array", "items": self.of(items)}
            case StringMap(values=values):
                return {"type": "object", "additionalProperties": self.of(values)}
            case Union(branches=branches):
                return {"oneOf": [self.of(branch) for branch in branches]}
            case Record():
                return self._reference(node)

    def object(self, record: Record) -> dict[str, Any]:
        made: dict[str, Any] = {"description": record.doc} if record.doc else {}
        properties = {field.name: self._property(field) for field in record.fields}
        made |= {"type": "object", "properties": properties, "additionalProperties": False}
        required = [field.name for field in record.fields if field.default is NO_DEFAULT and not field.fills]
        return {**made, "required": required} if required else made

    def _property(self, field: Field) -> Json:
        made: dict[str, Any] = {"description": field.doc} if field.doc else {}
        made |= self.of(field.node)
        if field.default is not NO_DEFAULT and _is_same_in_json(field.node, field.default):
            made["default"] = field.default
        return {**made, ALIASES: list(field.aliases)} if field.aliases else made

    def _reference(self, record: Record) -> Json:
        if record is self._root:
            return {"$ref": "#"}
        if record.name not in self._definitions:
            self._definitions[record.name] = None  # it may lead back to itself
            self._definitions[record.name] = self.object(record)
        return {"$ref": f"#/definitions/{record.name}"}


def _is_same_in_json(node: Node, default: Json) -> bool:
    """Tell whether a default is written in JSON as it is in an Avro schema."""
    match node:
        case Plain(logical=logical, avro=avro):
            return logical is None and avro != "bytes"
        case Choice() | Symbols():
            return True
        case Array() | StringMap():
            return not default
        case Union(branches=branches):
            return default is None or _is_same_in_json(next(b for b in branches if b != NULL), default)
        case _:
            return False


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
