"""The normal form of a schema: texts that mean the same become one."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eventlib.registry.parsing import Parsed, SchemaType, parse
from eventlib.registry.parsing.avro_types import PRIMITIVES
from eventlib.registry.parsing.parse import compact
from eventlib.registry.records import Schema

_ORDER = ("name", "type", "namespace", "fields", "symbols", "items", "values", "size")
_EXACT = 1 << 53
_NAMED = frozenset({"record", "error", "enum", "fixed"})


_WORD = re.compile(r"\b[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPELLING = frozenset({"namespace", "type", "syntax", "proto2", "proto3", "import", "public", "optional"})
"""Words that one spelling of a schema may have, and another lacks."""


def signature(schema: Schema) -> tuple[SchemaType, frozenset[str]]:
    """Return what all spellings of a schema share, and few others: it costs no parsing."""
    text = _COMMENT.sub(" ", schema.text) if schema.kind is SchemaType.PROTOBUF else schema.text
    return schema.kind, frozenset(_WORD.findall(text)) - _SPELLING


def normal(schema: Schema, parsed: Parsed, referenced: Mapping[str, str]) -> Schema:
    """Return a schema in its normal form.

    Avro: names in full, attributes in one order, types without needless objects. JSON Schema: keywords in the order
    of their names. Protobuf: the text that its descriptor gives, without comments. All: references by name.
    """
    references = tuple(sorted(schema.references, key=lambda each: (each.name, each.subject, each.version)))
    match schema.kind:
        case SchemaType.AVRO:
            text = compact(_avro(json.loads(parsed.text), ""))
        case SchemaType.JSON:
            document = json.loads(parsed.text, parse_float=_number)
            text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
        case SchemaType.PROTOBUF:
            from eventlib.registry.parsing.proto_text import proto_text

            text = parse(schema.kind, proto_text(parsed.model.file()), referenced).text
    return replace(schema, text=text, references=references)


def _number(text: str) -> int | float:
    """Return a JSON number; 1.0 is the 1 that it is."""
    found = float(text)
    return int(found) if found.is_integer() and abs(found) < _EXACT else found


def _avro(schema: Any, namespace: str) -> Any:
    match schema:
        case str():
            return schema if schema in PRIMITIVES or "." in schema or not namespace else f"{namespace}.{schema}"
        case list():
            return [_avro(each, namespace) for each in schema]
        case {"type": dict() | list() as inner}:
            return _avro(inner, namespace)
        case {"type": str(kind)} if len(schema) == 1:
            return _avro(kind, namespace)
    return _ordered(_object(dict(schema), namespace))


def _object(made: dict[str, Any], namespace: str) -> dict[str, Any]:
    kind = made["type"]
    if kind in _NAMED:
        own = made.pop("namespace", None)
        space = namespace if own is None else own
        made["name"] = made["name"] if "." in made["name"] or not space else f"{space}.{made['name']}"
        namespace = made["name"].rpartition(".")[0]
    if kind in {"array", "map"}:
        part = "items" if kind == "array" else "values"
        made[part] = _avro(made[part], namespace)
    if kind in {"record", "error"}:
        made["fields"] = [_ordered({**each, "type": _avro(each["type"], namespace)}) for each in made["fields"]]
    return made


def _ordered(schema: dict[str, Any]) -> dict[str, Any]:
    first = {name: schema[name] for name in _ORDER if name in schema}
    return {**first, **{name: schema[name] for name in sorted(schema) if name not in first}}
