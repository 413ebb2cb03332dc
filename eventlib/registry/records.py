"""The records of the topic `_schemas`, in the form in which a Confluent registry writes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from eventlib.log.base import undecodable
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.registry.parsing import SchemaType
from eventlib.registry.parsing.parse import compact
from eventlib.values import now_ms

SCHEMAS = Topic("_schemas", partitions=1, compacted=True)
WRITERS = Topic("_schemas.writers", partitions=1, compacted=True)
"""The address of the instance that may write."""


HIGHEST = "_eventlib.highest-id"
"""The subject whose one version has the highest id that was ever given, when no schema has it any more."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a schema calls another one, and which version of which subject that is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """What has an id: a text, its format, and what it refers to."""

    kind: SchemaType
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject. One that is deleted keeps its id, so that what was written with it can be read."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A version that is gone for good."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SubjectDeleted:
    """A subject whose versions up to one are deleted, as a Confluent registry writes it."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Setting:
    """A subject's setting, or everyone's (subject None): `kind` is CONFIG or MODE; `value` None takes it back."""

    kind: str
    subject: str | None
    value: Mapping[str, Any] | None


Entry: TypeAlias = Version | Forgotten | SubjectDeleted | Setting


def record_of(entry: Entry) -> Record:
    """Return an entry as a record for the log."""
    key: dict[str, Any]
    value: Mapping[str, Any] | None
    match entry:
        case Version():
            key, value = _schema_key(entry.subject, entry.version), _value(entry)
        case Forgotten():
            key, value = _schema_key(entry.subject, entry.version), None
        case SubjectDeleted():
            key = {"keytype": "DELETE_SUBJECT", "subject": entry.subject, "magic": 0}
            value = {"subject": entry.subject, "version": entry.version}
        case Setting():
            key, value = {"keytype": entry.kind, "subject": entry.subject, "magic": 0}, entry.value
    text = None if value is None else compact(value).encode()
    return Record(SCHEMAS.name, 0, -1, now_ms(), compact(key).encode(), text)


def entry_of(record: Record) -> Entry | None:
    """Return the content of a record; None when it is none of a registry's concerns. Raises: UndecodableRecord."""
    try:
        key = json.loads(record.key or b"null")
        value = None if record.value is None else json.loads(record.value)
        match key["keytype"]:
            case "SCHEMA" if value is not None:
                return _version(value)
            case "SCHEMA":
                return Forgotten(str(key["subject"]), int(key["version"]))
            case "DELETE_SUBJECT" if value is not None:
                return SubjectDeleted(str(value["subject"]), int(value["version"]))
            case "CONFIG" | "MODE" as kind:
                return Setting(kind, key.get("subject"), value)
            case _:
                return None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise undecodable(record, f"not a schema as a registry writes it: {error!s:.200}") from error


def deleted(version: Version) -> Version:
    """Return a version as deleted."""
    return replace(version, deleted=True)


def highest(given: int) -> Version:
    """Return the entry that remembers the highest id when its schema is forgotten, so that it is never given again."""
    text = compact({"type": "null", "doc": f"the highest id that was given: {given}"})
    return Version(HIGHEST, 1, given, Schema(SchemaType.AVRO, text), deleted=True)


def same_text(text: str, kind: str) -> str:
    """Return a schema's text in its canonical form: JSON without white space."""
    return text if kind == SchemaType.PROTOBUF else compact(json.loads(text))


def schema_json(schema: Schema) -> dict[str, Any]:
    """Return a schema as JSON; an Avro schema's type is left out, as it was before there were others."""
    found: dict[str, Any] = {}
    if schema.kind is not SchemaType.AVRO:
        found["schemaType"] = schema.kind
    if schema.references:
        found["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    return {**found, "schema": schema.text}


def _schema_key(subject: str, version: int) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}


def _value(version: Version) -> dict[str, Any]:
    place = {"subject": version.subject, "version": version.version, "id": version.id}
    return {**place, **schema_json(version.schema), "deleted": version.deleted}


def _version(value: Mapping[str, Any]) -> Version:
    kind = SchemaType(value.get("schemaType") or SchemaType.AVRO)
    text = same_text(str(value["schema"]), kind)
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in value.get("references") or ()
    )
    subject, version, schema_id = str(value["subject"]), int(value["version"]), int(value["id"])
    return Version(subject, version, schema_id, Schema(kind, text, references), bool(value.get("deleted", False)))
