"""The types of values that a JSON Schema allows, and whether it restricts anything at all."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

ALL = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
FAMILIES: Mapping[str, frozenset[str]] = {
    "array": frozenset({"array"}),
    "number": frozenset({"integer", "number"}),
    "object": frozenset({"object"}),
    "string": frozenset({"string"}),
}
_CONSTRAINTS = frozenset({
    "$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "if", "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
    "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern",
    "patternProperties", "prefixItems", "properties", "propertyNames", "required", "type", "unevaluatedItems",
    "unevaluatedProperties", "uniqueItems",
})  # fmt: skip


def is_empty(schema: Any) -> bool:
    """Tell whether a schema accepts everything because it restricts nothing."""
    return schema is True or (isinstance(schema, dict) and not _CONSTRAINTS & schema.keys())


def types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a schema accepts by its `type`, `enum` or `const`; a number may be an integer."""
    stated = schema.get("type")
    if stated is None:
        values = values_of(schema)
        return ALL if values is None else frozenset(_type(each) for each in values)
    names = {stated} if isinstance(stated, str) else {*stated}
    return frozenset(names | {"integer"} if "number" in names else names)


def type_names(types: Iterable[str]) -> str:
    """Return types as a sentence names them."""
    found = {*types}
    if found == ALL:
        return "any type"
    return ", ".join(sorted(found - {"integer"} if "number" in found else found)) or "nothing"


def values_of(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the values that a schema lists, or None when it lists none."""
    if "const" in schema:
        return [schema["const"]]
    return schema.get("enum")


def exact(value: Any) -> str:
    """Return what two JSON values have in common when they are equal (1 and 1.0 are, 1 and true are not)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list):
        return f"[{','.join(exact(each) for each in value)}]"
    if isinstance(value, dict):
        value = {key: exact(each) for key, each in value.items()}
    return json.dumps(value, sort_keys=True)


def _type(value: Any) -> str:  # noqa: PLR0911  one answer for each type
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
