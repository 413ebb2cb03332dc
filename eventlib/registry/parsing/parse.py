"""One entrance to the three parsers."""

import json
from collections.abc import Mapping
from typing import Any

from eventlib.registry.parsing.parsed import InvalidSchema, Parsed, SchemaType

_NOTHING: Mapping[str, str] = {}
_DEEPEST_JSON = 150
"""How many objects and lists of a JSON Schema may be in each other."""


def parse(kind: SchemaType, text: str, referenced: Mapping[str, str] = _NOTHING) -> Parsed:
    """Return a parsed schema; `referenced` are the texts that it refers to, by name, used ones first.

    Raises: InvalidSchema.
    """
    try:
        match kind:
            case SchemaType.AVRO:
                return _avro(text, referenced)
            case SchemaType.JSON:
                return _json_schema(text, referenced)
            case SchemaType.PROTOBUF:
                return _protobuf(text, referenced)
    except RecursionError:
        raise InvalidSchema(
            "it is nested too deeply to be read: nest less, or name what is nested and refer to it"
        ) from None


def _avro(text: str, referenced: Mapping[str, str]) -> Parsed:
    from eventlib.registry.parsing.avro import avro_type

    document = _document(text)
    others = [_document(each) for each in referenced.values()]
    return Parsed(SchemaType.AVRO, compact(document), avro_type(document, others))


def _json_schema(text: str, referenced: Mapping[str, str]) -> Parsed:
    from eventlib.registry.parsing.json_schema import json_schema

    document = _document(text)
    _refuse_deep(document)
    others = {name: _document(each) for name, each in referenced.items()}
    return Parsed(SchemaType.JSON, compact(document), json_schema(document, others))


def _protobuf(text: str, referenced: Mapping[str, str]) -> Parsed:
    from eventlib.registry.parsing.protobuf import protobuf_files

    files = protobuf_files(text, referenced)
    return Parsed(SchemaType.PROTOBUF, files.text, files)


def compact(document: Any) -> str:
    """Return a JSON document as the text to keep: without white space, in the order that it came in."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _document(text: str) -> Any:
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON: {error}") from error
    try:
        text.encode()
        compact(document).encode()
    except UnicodeEncodeError as error:
        raise InvalidSchema("it has half a character (a lone surrogate), which no UTF-8 text can hold") from error
    return document


def _refuse_deep(document: Any) -> None:
    """Refuse a document before validators walk through it, whose native code fails at the end of Python's stack."""
    level, depth = [document], 0
    while level := [
        part
        for each in level
        if isinstance(each, dict | list)
        for part in (each.values() if isinstance(each, dict) else each)
    ]:
        depth += 1
        if depth > _DEEPEST_JSON:
            raise InvalidSchema(f"it is nested more than {_DEEPEST_JSON} deep: name what is nested and refer to it")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
