"""Which fields of which events fit into one row: equal names of equal types."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as t

from analytics.columns import struct_of
from analytics.tables import Events
from eventlib.model.event import Event
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import NULL, Json, Record, Union, schema_json

META = ("topic", "partition", "offset", "recorded_at", "type", "id", "source", "correlation_id", "causation_id")
RESERVED = (*META, "key", "schema_id", "decoded")
"""The columns of a fact beside the event's fields."""

Fields = Mapping[type[Event], Sequence[str]]
"""The fields that are decoded of each event; of an event without any, nothing is decoded."""


def column_of(name: str) -> str:
    """Return the column of an event's field."""
    return f"event_{name}" if name in RESERVED else name


def required_field(event: type[Event]) -> str | None:
    """Return a field that is never NULL in a decoded event; None when it has none."""
    return next((each.name for each in record_of(event).fields if not _may_be_null(each.node)), None)


def _may_be_null(node: object) -> bool:
    return node == NULL or (isinstance(node, Union) and NULL in node.branches)


def fields_of(selections: Iterable[Events]) -> Fields:
    """Return the fields to decode of each event, and one that tells whether it could be decoded."""
    found = dict[type[Event], dict[str, None]]()
    for selection in selections:
        for event in selection.types:
            names = [name for name in selection.fields if name in event.model_fields]
            required = required_field(event)
            found.setdefault(event, {}).update(dict.fromkeys([*names, *([required] if required else [])]))
    return {event: tuple(names) for event, names in found.items()}


@dataclass
class Layout:
    """Events whose fields fit into one row: the decoded fields' types in Avro, without a default, and in Spark."""

    events: list[type[Event]] = field(default_factory=list)
    avro: dict[str, Json] = field(default_factory=dict)
    types: dict[str, t.DataType] = field(default_factory=dict)
    _all: dict[str, Json] = field(default_factory=dict)
    _named: dict[str, Json] = field(default_factory=dict)

    def takes(self, event: type[Event], names: Iterable[str]) -> bool:
        """Add an event with some fields, if all that it has agree with those that are there."""
        record, named = record_of(event), dict[str, Json]()
        single = {each.name: Record(record.cls, None, [each]) for each in record.fields}
        avro = {name: _type_of(each, named) for name, each in single.items()}
        for new, there in ((avro, self._all), (named, self._named)):
            if any(name in there and _or_null(there[name]) != _or_null(kind) for name, kind in new.items()):
                return False
        self.events.append(event)
        self._all, self._named = {**avro, **self._all}, {**named, **self._named}
        for name in names:
            self.avro.setdefault(name, avro[name])
            self.types.setdefault(name, struct_of(single[name]).fields[0].dataType)
        return True

    def reader(self, event: type[Event] | None = None) -> str:
        """Return the Avro schema that reads the fields of any of the events; what an event lacks is NULL.

        With an event, what a writer of an older version lacks is what the event's field has by default.
        """
        defined, fields = set[str](), list[dict[str, Json]]()
        defaults = {} if event is None else _defaults(event)
        for name, kind in self.avro.items():
            if name in defaults:
                default, first = defaults[name], kind if isinstance(kind, list) else [kind]
                whole = [*first, *([] if "null" in first else ["null"])]
            else:
                default, whole = None, _or_null(kind)
            fields.append({"name": name, "type": _once(whole, self._named, defined), "default": default})
        return json.dumps(fact_schema(fields))


def _defaults(event: type[Event]) -> dict[str, Json]:
    """Return what fields of an event are by default, if that is not NULL."""
    schema: Any = schema_json(record_of(event))
    return {each["name"]: each["default"] for each in schema["fields"] if each.get("default") is not None}


def fact_schema(fields: list[dict[str, Json]]) -> Json:
    """Return the schema of a record with these fields: of one name for all, since readers compare names."""
    return {"type": "record", "name": "Fact", "fields": fields}


def layouts_of(fields: Fields) -> list[Layout]:
    """Return as few layouts as take all the events, in order."""
    found = list[Layout]()
    for event, names in fields.items():
        if not any(layout.takes(event, names) for layout in found):
            found.append(Layout())
            found[-1].takes(event, names)
    return found


def _type_of(single: Record, named: dict[str, Json]) -> Json:
    whole: Any = schema_json(single)
    return _plain(whole["fields"][0]["type"], named)


def _or_null(kind: Json) -> Json:
    return kind if isinstance(kind, list) else ["null", kind]


def _plain(schema: Json, named: dict[str, Json]) -> Json:
    """Return a schema with its named types by name only, which are put into `named`; without what no reader needs."""
    if isinstance(schema, list):
        return [_plain(each, named) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "fields" in schema:
        fields = [{"name": each["name"], "type": _plain(each["type"], named)} for each in schema["fields"]]
        named[schema["name"]] = {"type": "record", "name": schema["name"], "fields": fields}
        return schema["name"]
    if "symbols" in schema:
        named[schema["name"]] = {key: part for key, part in schema.items() if key != "doc"}
        return schema["name"]
    return {key: _plain(part, named) if key in {"items", "values"} else part for key, part in schema.items()}


def _once(schema: Json, named: Mapping[str, Json], defined: set[str]) -> Json:
    """Return a schema in which each named type is defined where it comes first."""
    if isinstance(schema, list):
        return [_once(each, named, defined) for each in schema]
    if isinstance(schema, str):
        if schema not in named or schema in defined:
            return schema
        defined.add(schema)
        whole = named[schema]
        fields = [{**each, "type": _once(each["type"], named, defined)} for each in whole.get("fields", ())]
        return {**whole, "fields": fields} if fields else whole
    return {key: _once(part, named, defined) if key in {"items", "values"} else part for key, part in schema.items()}
