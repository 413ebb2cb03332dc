"""The writer schemas of an event, and whether Spark's own Avro reader resolves them like the library's codec."""

import json
from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.columns import MOST_DIGITS, nodes_of
from eventlib.codec.schema_ids import Schemas
from eventlib.log.memory import MemoryLog
from eventlib.model.record import Record as Stored
from eventlib.model.schema.types import Exact, Json, Record, schema_json, version_in
from eventlib.registry.records import SCHEMAS


def schemas_among(records: DataFrame) -> Mapping[int, str]:
    """Return the schemas on a log, by id, from its records. Raises: UndecodableRecord."""
    found = Schemas(MemoryLog())
    rows = records.filter(f.col("topic") == SCHEMAS.name).select("offset", "key", "value").orderBy("offset")
    for offset, key, value in rows.collect():
        found.learn(Stored(SCHEMAS.name, 0, offset, 0, key and key.encode(), value and bytes(value)))
    return found.texts


def writers_of(record: Record, texts: Mapping[int, str]) -> dict[int, str]:
    """Return those schemas that are a record's, in any namespace and any version."""
    return {number: text for number, text in texts.items() if _short_name(json.loads(text)) == record.name}


def _short_name(schema: Json) -> str:
    return str(schema.get("name", "")).rpartition(".")[2] if isinstance(schema, dict) else ""


def resolves_equally(record: Record, writer: Json) -> bool:
    """Return whether Avro's resolution alone decodes a writer's bytes like the library's codec.

    True only where it is certain: no upcaster is needed, the class fills in nothing itself, names are equal, and types are
    equal or one more branch of a union.
    """
    if version_in(writer) != record.version:
        return False
    if any(isinstance(node, Exact) and node.precision > MOST_DIGITS for node in nodes_of(record)):
        return False
    written, read = dict(_named(writer)), dict(_named(schema_json(record)))
    return written.keys() <= read.keys() and all(_alike(written[name], read[name]) for name in written)


def _alike(written: Json, read: Json) -> bool:
    if "symbols" in written:
        return "symbols" in read and set(written["symbols"]) <= set(read["symbols"])
    if "fields" not in written or "fields" not in read:
        return False
    before = {field["name"]: _essence(field["type"]) for field in written["fields"]}
    return all(
        _fits(before[field["name"]], _essence(field["type"])) if field["name"] in before else _is_new(field, before)
        for field in read["fields"]
    )


def _is_new(field: Json, before: Mapping[str, Json]) -> bool:
    return "default" in field and not before.keys() & set(field.get("aliases", ()))


def _fits(written: Json, read: Json) -> bool:
    if isinstance(written, list):
        return isinstance(read, list) and all(each in read for each in written)
    return written == read or (isinstance(read, list) and written in read)


def _essence(schema: Json) -> Json:
    """Return a type with its named types by name, reduced to what decides how bytes are read."""
    if isinstance(schema, list):
        return [_essence(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" in schema:
        return schema["name"]
    return {key: _essence(part) for key, part in schema.items() if key not in {"doc", "default"}}


def _named(schema: Json) -> Iterator[tuple[str, Json]]:
    """Yield a schema's records, enums and fixed types, with their names."""
    for part in schema if isinstance(schema, list) else ():
        yield from _named(part)
    if isinstance(schema, dict):
        if "name" in schema:
            yield schema["name"], schema
        for part in (schema.get("items"), schema.get("values"), schema["type"]):
            yield from _named(part)
        for field in schema.get("fields", ()):
            yield from _named(field["type"])
