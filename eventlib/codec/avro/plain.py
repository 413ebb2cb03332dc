"""Reads Avro bytes of a given schema as plain Python values, for records that others wrote."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader

from eventlib.codec.avro.bounds_check import guard_of
from eventlib.codec.avro.resolution import each_item, each_value
from eventlib.errors import ContractError, WiringError
from eventlib.model.schema.scalars import Convert, exact_reader
from eventlib.model.schema.types import Json, without_logical_types

Schema = str | dict[str, Any]
"""A schema as JSON text, or as `json.loads` gives it."""

_DECIMAL = frozenset({"decimal"})  # converted here, within its precision: fastavro would take minutes for a megabyte


def plain_reader(schema: Schema) -> Callable[[bytes], dict[str, Any]]:
    """Return the function that reads what a record schema has written, with nothing in front, as a dict.

    It raises ContractError for bytes that cannot be read, whatever they are.
    Raises: WiringError for what is no Avro record schema.
    """
    try:
        given = json.loads(schema) if isinstance(schema, str) else schema
        full = parse_schema(given)
        written = parse_schema(without_logical_types(given, _DECIMAL))
        convert = _Decimals().of(full)
        guard = guard_of(written, always=True)
    except Exception as error:  # a schema from outside may be anything
        raise WiringError(f"this is not an Avro schema: {type(error).__name__}: {error!s:.300}") from error
    if not isinstance(full, dict) or full["type"] != "record":
        raise WiringError("an event is an Avro record, but the schema is of something else")

    def read(data: bytes) -> dict[str, Any]:
        try:
            if guard is not None:
                guard(data, 0)
            raw: Any = schemaless_reader(BytesIO(data), written, None)
            fields: dict[str, Any] = raw if convert is None else convert(raw)
        except Exception as error:  # bytes from outside can raise anything in fastavro
            reason = f"{error!s:.300}" or type(error).__name__
            raise ContractError(f"the bytes do not fit the schema: {reason}") from error
        return fields

    return read


class _Decimals:
    """Converters of the decimals in a schema's values; None where there are none."""

    def __init__(self) -> None:
        self._named: dict[str, Convert | None] = {}

    def of(self, schema: Json) -> Convert | None:  # noqa: PLR0911  one answer for each kind
        """Return a type's converter."""
        if isinstance(schema, str):
            return self._by_name(schema) if schema in self._named else None
        if isinstance(schema, list):
            return self._union(schema)
        if schema.get("logicalType") == "decimal":
            return exact_reader(schema["precision"], schema.get("scale", 0))
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "array":
                return each_item(self.of(schema["items"]))
            case "map":
                return each_value(self.of(schema["values"]))
            case dict() | list() as inner:
                return self.of(inner)
            case _:
                return None

    def _by_name(self, name: str) -> Convert:
        # Perhaps still being made, further up: it is looked up when it runs.
        return lambda raw: raw if (convert := self._named[name]) is None else convert(raw)

    def _record(self, schema: Json) -> Convert | None:
        self._named[schema["name"]] = None
        found = {field["name"]: self.of(field["type"]) for field in schema["fields"]}
        changes = {name: convert for name, convert in found.items() if convert is not None}
        made = _fields(changes) if changes else None
        self._named[schema["name"]] = made
        return made

    def _union(self, branches: list[Json]) -> Convert | None:
        converts = [(branch, to) for branch in branches if (to := self.of(branch)) is not None]
        if not converts:
            return None

        def convert(raw: object) -> object:
            for branch, to in converts:
                if _is_of(raw, branch):
                    return to(raw)
            return raw

        return convert


def _is_of(raw: object, branch: Json) -> bool:
    """Tell whether a value was read from a branch; two records are told apart by their fields."""
    if isinstance(branch, str):
        return isinstance(raw, dict)
    match branch["type"]:
        case "record" | "error":
            return isinstance(raw, dict) and raw.keys() == {field["name"] for field in branch["fields"]}
        case "array":
            return isinstance(raw, list)
        case "map":
            return isinstance(raw, dict)
        case _:
            return isinstance(raw, bytes)


def _fields(changes: dict[str, Convert]) -> Convert:
    def convert(raw: dict[str, Any]) -> dict[str, Any]:
        for name, to in changes.items():
            raw[name] = to(raw[name])
        return raw

    return convert
