"""A schema's text, parsed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eventlib.errors import ContractError

DEEPEST = 200
"""How deep a schema may nest."""


class SchemaType(StrEnum):
    """The formats, by the names that a registry's clients know."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class InvalidSchema(ContractError):
    """A text that is no schema of its format; the sentence names where and why."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A schema that is understood.

    `text` is the one to keep: two texts that differ in white space only have the same. `model` is the format's own:
    `avro_types.Type`, `json_schema.Document` or `protobuf.Files` in this package.
    """

    kind: SchemaType
    text: str
    model: Any
