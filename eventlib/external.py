"""Topics that others write: decoders of their records, and the router that gives each record to its event class."""

import codecs
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from eventlib.errors import ContractError, EventlibError, WiringError
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.log.base import undecodable
from eventlib.model.event import Contract, Event, ExternalFormat, contract_of, key_of
from eventlib.model.identity import derived_id, root_traceparent
from eventlib.model.record import Record, key_text
from eventlib.values import LATEST, to_ms

if TYPE_CHECKING:
    from eventlib.codec.avro.plain import Schema

__all__ = ["Avro", "Json", "Text"]

E = TypeVar("E", bound=Event)


class Json(ExternalFormat):
    """One JSON object a record (RFC 8259); a field is found under its name or its alias."""

    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """See `ExternalFormat.decode`."""
        try:
            fields = from_json(value)
        except ValueError as error:
            raise ContractError(f"{event_type.__name__}: the record is not JSON: {error!s:.200}") from error
        if not isinstance(fields, dict):
            raise ContractError(f"{event_type.__name__}: the record is a JSON {type(fields).__name__}, not an object")
        return _event(event_type, fields, key)


class Text(ExternalFormat):
    """The whole record as text, in one field of the event."""

    def __init__(self, field: str, *, encoding: str = "utf-8") -> None:
        self._field = field
        self._encoding = encoding
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise WiringError(f"Text({field!r}, encoding={encoding!r}): Python knows no such encoding") from error

    def check(self, event_type: type[Event]) -> None:
        """See `ExternalFormat.check`."""
        if self._field not in event_type.model_fields:
            fields = ", ".join(event_type.model_fields) or "none"
            raise WiringError(f"event {event_type.__name__}: Text({self._field!r}) names none of its fields ({fields})")

    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """See `ExternalFormat.decode`."""
        try:
            text = value.decode(self._encoding)
        except UnicodeError as error:
            raise ContractError(f"{event_type.__name__}: the record is not text: {error!s:.200}") from error
        return _event(event_type, {self._field: text}, key)


class Avro(ExternalFormat):
    """Avro with a writer's schema that is known beforehand, and no header in front of the bytes.

    `schema` is the writer's, as JSON text or parsed; its names need not be ours.
    """

    def __init__(self, schema: "Schema") -> None:
        # Imported here, since few applications read Avro that others wrote, and fastavro takes long to import.
        from eventlib.codec.avro.plain import plain_reader

        self._read = plain_reader(schema)

    def decode(self, event_type: type[E], value: bytes, key: str | None) -> E:
        """See `ExternalFormat.decode`."""
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


_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LATEST_MS = to_ms(LATEST) - 1


class ExternalRouter:
    """Which topics others write, and how to read them; `traced_below` bounds the ids of their traces that are recorded."""

    def __init__(self, events: Iterable[type[Event]], traced_below: str) -> None:
        self._traced_below = traced_below
        self._classes: dict[str, tuple[type[Event], ExternalFormat]] = {}
        for event in events:
            contract = contract_of(event)
            if contract.external is not None:
                self._classes[contract.topic.name] = event, contract.external
        self.topics = frozenset(self._classes)

    def why_passed_over(self, record: Record) -> str | None:
        """Return why a record of an external topic is no event and no fault, since it has no value; None when it is one."""
        if record.value is not None:
            return None
        contract = contract_of(self._classes[record.topic][0])
        if contract.null is None:
            return f'it has no value, and {contract.type} does not declare what that means: null="skip", or null={{…}}'
        return f'it has no value, and {contract.type} declares null="skip"' if contract.null == "skip" else None

    def type_of(self, record: Record) -> str | None:
        """Return the type of the event in a record: its class's on an external topic, else what its header says."""
        found = self._classes.get(record.topic)
        return record.type if found is None else contract_of(found[0]).type

    def decode(self, record: Record) -> Event:
        """Return the event in a record of an external topic. Raises: UndecodableRecord."""
        event_type, external = self._classes[record.topic]
        if (why := self.why_passed_over(record)) is not None:
            raise undecodable(record, why)
        if not -1 <= record.timestamp_ms <= _LATEST_MS:
            raise undecodable(
                record, f"its timestamp {record.timestamp_ms} is not in milliseconds since 1970, before {LATEST:%Y}"
            )
        try:
            key = None if record.key is None else key_text(record)
            if record.value is None:
                null = contract_of(event_type).null
                return _event(event_type, null if isinstance(null, Mapping) else {}, key)
            return external.decode(event_type, record.value, key)
        except EventlibError as error:
            raise undecodable(record, str(error)) from error
        except Exception as error:  # a decoder of the application's own
            raise undecodable(record, f"{type(error).__name__}: {error!s:.300}") from error

    def settled(self, record: Record, event: Event) -> Record:
        """Return a record as if one of ours had written it: under its event's key, with a trace that is one.

        Raises: UndecodableRecord, with the remedy, when that key belongs in another partition.
        """
        contract = contract_of(type(event))
        try:
            key = key_of(event)
        except ContractError as error:
            raise undecodable(record, str(error)) from error
        if key is not None:
            self._refuse_misplaced(record, key, contract)
        traceparent = record.traceparent
        if traceparent is None or not _TRACEPARENT.fullmatch(traceparent):
            trace_id = derived_id("foreign", record.topic, str(record.partition), record.offset)
            traceparent = root_traceparent(trace_id, self._traced_below)
        return record.replace(key=None if key is None else key.encode(), traceparent=traceparent)

    def _refuse_misplaced(self, record: Record, key: str, contract: Contract) -> None:
        topic = contract.topic
        home = topic.partition_of(key.encode())
        others = topic.partitions > 1 and record.key is not None and key_text(record) != key
        if home == record.partition and not others:
            return
        if others:
            found = f"its records have another key ({key_text(record)!r} here, where {contract.key} is {key!r})"
        else:
            found = f"{contract.key} {key!r} belongs in partition {home}, and is in {record.partition}"
        raise undecodable(
            record,
            f"topic {topic.name} is not partitioned by {contract.key}: {found}. One key would be split over tasks. "
            f"Declare {contract.type} with key=None, and let a decider with key=None emit events of yours under "
            f"{contract.key}; or name the writer's partitioner on the Topic",
        )
