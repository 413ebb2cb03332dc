"""The types that a JSON Schema allows, and the keywords that bound a single value; patterns are matched in linear time."""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from eventlib.ground.linear_regex import LinearRegex
from eventlib.registry.compatibility.base import Found, Incompatibility

Schema = Mapping[str, Any]

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

_UPPER = {"maxLength": "string", "maxItems": "array", "maxProperties": "object", "maxContains": "array"}
_LOWER = {"minLength": "string", "minItems": "array", "minProperties": "object", "minContains": "array"}
_RULES = {
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM", "exclusiveMinimum": "EXCLUSIVE_MINIMUM", "maxContains": "MAX_CONTAINS",
    "maxItems": "MAX_ITEMS", "maxLength": "MAX_LENGTH", "maxProperties": "MAX_PROPERTIES", "maximum": "MAXIMUM",
    "minContains": "MIN_CONTAINS", "minItems": "MIN_ITEMS", "minLength": "MIN_LENGTH",
    "minProperties": "MIN_PROPERTIES", "minimum": "MINIMUM",
}  # fmt: skip


def enumeration(old: Schema, new: Schema, path: str) -> Found | None:
    """Return what is wrong with listed values; None when only the other keywords decide."""
    before, now = values_of(old), values_of(new)
    if now is None:
        return None
    if before is None:
        message = "any value of the type was valid, and now only those listed: leave the list out"
        return [Incompatibility("ENUM_ARRAY_ADDED", f"{path}/enum", message)]
    had, has = {exact(each) for each in before}, {exact(each) for each in now}
    if had <= has:
        return None
    rule = "ENUM_ARRAY_NARROWED" if has < had else "ENUM_ARRAY_CHANGED"
    message = f"{', '.join(sorted(had - has))[:200]} was valid: keep what was listed"
    return [Incompatibility(rule, f"{path}/enum", message)]


def limits(old: Schema, new: Schema, path: str, types: frozenset[str]) -> Found:
    """Return which limits are new, or narrower."""
    found = Found()
    for keyword, family in {**_UPPER, **_LOWER}.items():
        if types & FAMILIES[family]:
            found += _limit(keyword, old, new, path, upper=keyword in _UPPER)
    if types & FAMILIES["number"]:
        old, new = _bounds(old), _bounds(new)
        for inclusive, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
            found += _bound(inclusive, exclusive, old, new, path)
    return found


def scalars(old: Schema, new: Schema, path: str, types: frozenset[str]) -> Found:
    """Return what is wrong with `multipleOf` and `pattern`."""
    found = Found()
    if types & FAMILIES["number"] and "multipleOf" in new:
        found += _multiples(old.get("multipleOf"), new["multipleOf"], f"{path}/multipleOf", types)
    if types & FAMILIES["string"] and "pattern" in new and new["pattern"] != old.get("pattern"):
        rule = "PATTERN_CHANGED" if "pattern" in old else "PATTERN_ADDED"
        message = f"text had to match {old.get('pattern', 'nothing')!r}, and now {new['pattern']!r}: keep what it was"
        found.append(Incompatibility(rule, f"{path}/pattern", message))
    return found


def _limit(keyword: str, old: Schema, new: Schema, path: str, *, upper: bool) -> Found:
    if keyword not in new or (not upper and new[keyword] == 0):
        return []
    return _narrowed(keyword, old.get(keyword), new[keyword], path, upper=upper)


def _narrowed(keyword: str, before: Any, now: Any, path: str, *, upper: bool) -> Found:
    if before is not None and (before <= now if upper else before >= now):
        return []
    change = "ADDED" if before is None else "DECREASED" if upper else "INCREASED"
    was = "none" if before is None else before
    message = f"{keyword} was {was} and is {now}: keep what was valid"
    return [Incompatibility(f"{_RULES[keyword]}_{change}", f"{path}/{keyword}", message)]


def _bounds(schema: Schema) -> Schema:
    """Draft 4 marks whether a bound is exclusive; later drafts give the exclusive bound itself."""
    found = dict(schema)
    for inclusive, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and inclusive in found:
            found[exclusive] = found.pop(inclusive)
    return found


def _bound(inclusive: str, exclusive: str, old: Schema, new: Schema, path: str) -> Found:
    upper = inclusive == "maximum"
    found = Found()
    if inclusive in new:  # an exclusive bound at the same number is narrower
        implied = exclusive in old and not _narrowed(inclusive, old[exclusive], new[inclusive], path, upper=upper)
        found += [] if implied else _narrowed(inclusive, old.get(inclusive), new[inclusive], path, upper=upper)
    if exclusive in new:
        within = inclusive in old and (old[inclusive] < new[exclusive] if upper else old[inclusive] > new[exclusive])
        found += [] if within else _narrowed(exclusive, old.get(exclusive), new[exclusive], path, upper=upper)
    return found


def _multiples(before: Any, now: Any, path: str, types: frozenset[str]) -> Found:
    if before is None:
        if types == {"integer"} and now == 1:
            return []
        return [Incompatibility("MULTIPLE_OF_ADDED", path, f"any number was valid: leave multipleOf {now} out")]
    was, is_now = Decimal(str(before)), Decimal(str(now))
    if was % is_now == 0:
        return []
    rule = "MULTIPLE_OF_EXPANDED" if is_now % was == 0 else "MULTIPLE_OF_CHANGED"
    return [Incompatibility(rule, path, f"multipleOf was {before} and is {now}: keep it, or a divisor of it")]


def matches(pattern: str, name: str) -> bool | None:
    """Tell whether a name has a match of a pattern anywhere in it; None when that stays open."""
    try:
        return LinearRegex(pattern).search(name)
    except ValueError:
        return None


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
