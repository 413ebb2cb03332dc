"""Topics that others write: `class Clicked(Event, topic="web.clicks", key="user_id", foreign=Json())`.

Every record of such a topic is read as that one class, whatever its headers say. A record without CloudEvents headers
has its place, `topic/partition/offset`, as its id. Fields that the class does not declare are ignored, since others
add to their records without asking. The key field is the value's; where the value has none, it is the record's key.
What cannot be read is parked, as everything is.

A decider's task is a partition, so a foreign topic has to be partitioned by the class's key as ours are. One that is
not says so with its first record: that is parked with the remedy. The remedy is `key=None`: a decider with key=None
has one state for each partition, takes the partition's records in order, and may say events of its own under any key.

Another form (Protobuf, XML, a legacy layout) is a class of your own: derive it from `eventlib.event.Foreign`.
"""

import codecs
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from eventlib.codec.avro.plain import Schema, plain_reader
from eventlib.errors import ContractError, WiringError
from eventlib.event import Event, Foreign, contract_of
from eventlib.validation import sentence_of

__all__ = ["Avro", "Foreign", "Json", "Text"]

E = TypeVar("E", bound=Event)


class Json(Foreign):
    """One JSON object a record (RFC 8259); a field is found under its name or its alias."""

    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """See `Foreign.decode`."""
        try:
            fields = from_json(value)
        except ValueError as error:
            raise ContractError(f"{event_type.__name__}: the record is not JSON: {error!s:.200}") from error
        if not isinstance(fields, dict):
            raise ContractError(f"{event_type.__name__}: the record is a JSON {type(fields).__name__}, not an object")
        return _event(event_type, fields, key)


class Text(Foreign):
    """The whole record as text, in one field of the event."""

    def __init__(self, field: str, *, encoding: str = "utf-8") -> None:
        self._field = field
        self._encoding = encoding
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise WiringError(f"Text({field!r}, encoding={encoding!r}): Python knows no such encoding") from error

    def check(self, event_type: type[Event]) -> None:
        """See `Foreign.check`."""
        if self._field not in event_type.model_fields:
            fields = ", ".join(event_type.model_fields) or "none"
            raise WiringError(f"event {event_type.__name__}: Text({self._field!r}) names none of its fields ({fields})")

    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """See `Foreign.decode`."""
        try:
            text = value.decode(self._encoding)
        except UnicodeError as error:
            raise ContractError(f"{event_type.__name__}: the record is not text: {error!s:.200}") from error
        return _event(event_type, {self._field: text}, key)


class Avro(Foreign):
    """Avro with a writer's schema that is known beforehand, and no header in front of the bytes.

    `schema` is the writer's, as JSON text or parsed; its names need not be ours.
    """

    def __init__(self, schema: Schema) -> None:
        self._read = plain_reader(schema)

    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """See `Foreign.decode`."""
        try:
            fields = self._read(value)
        except ContractError as error:
            raise ContractError(f"{event_type.__name__}: {error}") from error
        return _event(event_type, fields, key)


def _event(event_type: type[E], fields: Mapping[str, Any], key: str | None) -> E:
    name = contract_of(event_type).key
    if key is not None and name is not None and not fields.keys() & _names(event_type, name):
        fields = {**fields, name: key}
    try:
        return event_type.model_validate(fields, strict=False, extra="ignore", by_alias=True, by_name=True)
    except ValidationError as error:
        raise ContractError(f"{event_type.__name__}: {sentence_of(error)}") from error
    except Exception as error:  # a validator of the class can raise anything
        raise ContractError(f"{event_type.__name__}: {type(error).__name__}: {error!s:.200}") from error


def _names(event_type: type[Event], field: str) -> set[str]:
    info = event_type.model_fields[field]
    return {name for name in (field, info.alias, info.validation_alias) if isinstance(name, str)}
