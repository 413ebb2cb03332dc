"""How JSON Schemas evolve, rule by rule."""

from typing import Any

from tests.unit.registry.evolution import READS, Case, rules

TEXT, WHOLE, NUMBER, NULL = ({"type": each} for each in ("string", "integer", "number", "null"))
CLOSED = {"additionalProperties": False}
MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def obj(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {}), **more}


def arr(**more: Any) -> dict[str, Any]:
    return {"type": "array", **more}


def tree(value: Any) -> dict[str, Any]:
    node = obj({"v": value, "next": {"$ref": "#/definitions/node"}}, **CLOSED)
    return {"$ref": "#/definitions/node", "definitions": {"node": node}}


def tagged(kind: str, **properties: Any) -> dict[str, Any]:
    return obj({"kind": {"const": kind}, **properties}, "kind", **CLOSED)


A = obj({"a": TEXT}, **CLOSED)
AB = obj({"a": TEXT, "b": WHOLE}, **CLOSED)
NARROWED, CHANGED = rules("TYPE_NARROWED"), rules("TYPE_CHANGED")
GONE = rules("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")

# One case, one line.
# fmt: off
CASES = [
    Case("nothing changes", A, A, READS, READS, [{"a": "x"}], [{"a": "x"}]),
    Case("words for people change", {"type": "string", "title": "x"}, {"type": "string", "description": "y", "default": "z"}, READS, READS, ["v"], ["v"]),
    Case("closed: an optional property is added", A, AB, READS, GONE, [{"a": "x"}]),
    Case("closed: a required property is added", A, obj({"a": TEXT, "b": WHOLE}, "b", **CLOSED), rules("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"), GONE),
    Case("closed: a required property with a default is added", A, obj({"a": TEXT, "b": {"type": "integer", "default": 0}}, "b", **CLOSED), READS, GONE, [{"a": "x"}]),
    Case("closed: a property is removed", AB, A, GONE, READS, [], [{"a": "x"}]),
    Case("closed: a property that nothing fits is removed", obj({"a": TEXT, "b": False}, **CLOSED), A, READS, READS, [{"a": "x"}], [{"a": "x"}]),
    Case("open: a property is added", obj({"a": TEXT}), obj({"a": TEXT, "b": WHOLE}), rules("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"), READS, [], [{"a": "x", "b": 1}]),
    Case("open: a required property is added", obj({"a": TEXT}), obj({"a": TEXT, "b": WHOLE}, "b"), rules("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"), READS, [], [{"b": 1}]),
    Case("open: a required property with a default is added", obj({}), obj({"b": {"type": "integer", "default": 1}}, "b"), rules("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"), READS, [], [{"b": 1}]),
    Case("open: a property without a type is added", obj({"a": TEXT}), obj({"a": TEXT, "b": {}}), READS, READS, [{"a": "x", "b": [1]}], [{"a": "x", "b": 1}]),
    Case("open: a property is removed", obj({"a": TEXT, "b": WHOLE}), obj({"a": TEXT}), READS, rules("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"), [{"a": "x", "b": 1}]),
    Case("partly open: an added property is covered", obj({}, additionalProperties=WHOLE), obj({"b": NUMBER}, additionalProperties=WHOLE), READS, rules("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_NARROWED"), [{"b": 1}]),
    Case("partly open: an added property is not covered", obj({}, additionalProperties=WHOLE), obj({"b": TEXT}, additionalProperties=WHOLE), rules("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"), rules("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED")),
    Case("partly open: a pattern covers an added property", obj({}, patternProperties={"^b": WHOLE}, **CLOSED), obj({"b": WHOLE}, patternProperties={"^b": WHOLE}, **CLOSED), READS, READS, [{"b": 1}], [{"b": 2}]),
    Case("partly open: a removed property is covered", obj({"b": WHOLE}, additionalProperties=NUMBER), obj({}, additionalProperties=NUMBER), READS, rules("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_NARROWED"), [{"b": 1}]),
    Case("an object is opened", A, obj({"a": TEXT}), READS, rules("ADDITIONAL_PROPERTIES_REMOVED"), [{"a": "x"}]),
    Case("an object is opened to a type", A, obj({"a": TEXT}, additionalProperties=WHOLE), READS, rules("ADDITIONAL_PROPERTIES_REMOVED"), [{"a": "x"}]),
    Case("other properties get a type", obj({}), obj({}, additionalProperties=WHOLE), rules("ADDITIONAL_PROPERTIES_NARROWED"), READS, [], [{"q": 1}]),
    Case("other properties get a wider type", obj({}, additionalProperties=WHOLE), obj({}, additionalProperties=NUMBER), READS, NARROWED, [{"q": 1}]),
    Case("a property becomes required", A, obj({"a": TEXT}, "a", **CLOSED), rules("REQUIRED_ATTRIBUTE_ADDED"), READS, [], [{"a": "x"}]),
    Case("a property with a default becomes required", obj({"a": {"type": "string", "default": "?"}}, **CLOSED), obj({"a": {"type": "string", "default": "?"}}, "a", **CLOSED), READS, READS, [{}, {"a": "x"}], [{"a": "x"}]),
    Case("what nobody described becomes required", obj({}), obj({}, "z"), rules("REQUIRED_ATTRIBUTE_ADDED"), READS, [], [{"z": 1}]),
    Case("a pattern is added to an open object", obj({}), obj({}, patternProperties={"^x": WHOLE}), rules("PATTERN_PROPERTY_ADDED"), READS, [], [{"x": 1}]),
    Case("a pattern is added to a closed object", A, obj({"a": TEXT}, patternProperties={"^x": WHOLE}, **CLOSED), READS, rules("PATTERN_PROPERTY_REMOVED"), [{"a": "x"}]),
    Case("a pattern's type becomes wider", obj({}, patternProperties={"^x": WHOLE}, **CLOSED), obj({}, patternProperties={"^x": NUMBER}, **CLOSED), READS, NARROWED, [{"x": 1}]),
    Case("a pattern that nobody can search in time is not searched", obj({}, patternProperties={"^(a+)+$": WHOLE}, **CLOSED), obj({"a" * 60 + "b": TEXT}, patternProperties={"^(a+)+$": WHOLE}, **CLOSED), READS, GONE, [{"a": 1}]),
    Case("what a pattern with look-around speaks of stays open", obj({}, patternProperties={"(?!x)": WHOLE}, **CLOSED), obj({"b": WHOLE}, patternProperties={"(?!x)": WHOLE}, **CLOSED), rules("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_NARROWED"), GONE),
    Case("names are restricted", obj({}), obj({}, propertyNames={"maxLength": 3}), rules("MAX_LENGTH_ADDED"), READS, [], [{"abc": 1}]),
    Case("more properties are allowed", obj({}, maxProperties=1), obj({}, maxProperties=2), READS, rules("MAX_PROPERTIES_DECREASED"), [{"a": 1}]),
    Case("fewer properties are enough", obj({}, minProperties=2), obj({}, minProperties=1), READS, rules("MIN_PROPERTIES_INCREASED"), [{"a": 1, "b": 2}]),
    Case("a number of properties is asked for", obj({}), obj({}, maxProperties=3, minProperties=1), rules("MAX_PROPERTIES_ADDED", "MIN_PROPERTIES_ADDED"), READS, [], [{"a": 1}]),
    Case("a dependency is added", obj({"a": TEXT, "b": TEXT}), obj({"a": TEXT, "b": TEXT}, dependencies={"a": ["b"]}), rules("DEPENDENCY_ARRAY_ADDED"), READS, [], [{"a": "x", "b": "y"}]),
    Case("a dependency asks for more", obj({}, dependencies={"a": ["b"]}), obj({}, dependencies={"a": ["b", "c"]}), rules("DEPENDENCY_ARRAY_EXTENDED"), READS, [], [{"a": 1, "b": 2, "c": 3}]),
    Case("a dependency asks for something else", obj({}, dependencies={"a": ["b"]}), obj({}, dependencies={"a": ["c"]}), rules("DEPENDENCY_ARRAY_CHANGED"), rules("DEPENDENCY_ARRAY_CHANGED")),
    Case("a dependency on a schema is added", obj({}), obj({}, dependencies={"a": {"required": ["b"]}}), rules("DEPENDENCY_SCHEMA_ADDED"), READS, [], [{"a": 1, "b": 2}]),
    Case("a dependency in later words", obj({}, **MODERN), obj({}, dependentRequired={"a": ["b"]}, **MODERN), rules("DEPENDENCY_ARRAY_ADDED"), READS, [], [{"a": 1, "b": 2}]),
    Case("integer to number", WHOLE, NUMBER, READS, NARROWED, [1]),
    Case("a type is added", TEXT, {"type": ["string", "null"]}, READS, NARROWED, ["x"]),
    Case("another type", TEXT, WHOLE, CHANGED, CHANGED),
    Case("any type becomes one", {}, TEXT, NARROWED, READS, [], ["x"]),
    Case("nothing is valid any more", TEXT, False, CHANGED, READS),
    Case("a maximum is raised", {"type": "integer", "maximum": 5}, {"type": "integer", "maximum": 6}, READS, rules("MAXIMUM_DECREASED"), [5]),
    Case("a maximum is added", WHOLE, {"type": "integer", "maximum": 6}, rules("MAXIMUM_ADDED"), READS, [], [6]),
    Case("a minimum is lowered", {"type": "number", "minimum": 1}, {"type": "number", "minimum": 0.5}, READS, rules("MINIMUM_INCREASED"), [1]),
    Case("a minimum is added", NUMBER, {"type": "number", "minimum": 0}, rules("MINIMUM_ADDED"), READS, [], [0]),
    Case("an exclusive maximum is raised", {"type": "number", "exclusiveMaximum": 5}, {"type": "number", "exclusiveMaximum": 6}, READS, rules("EXCLUSIVE_MAXIMUM_DECREASED"), [4]),
    Case("an exclusive maximum is added", NUMBER, {"type": "number", "exclusiveMaximum": 6}, rules("EXCLUSIVE_MAXIMUM_ADDED"), READS, [], [5]),
    Case("an exclusive minimum is lowered", {"type": "number", "exclusiveMinimum": 5}, {"type": "number", "exclusiveMinimum": 4}, READS, rules("EXCLUSIVE_MINIMUM_INCREASED"), [6]),
    Case("an exclusive minimum is added", NUMBER, {"type": "number", "exclusiveMinimum": 6}, rules("EXCLUSIVE_MINIMUM_ADDED"), READS, [], [7]),
    Case("an exclusive maximum becomes inclusive", {"type": "number", "exclusiveMaximum": 5}, {"type": "number", "maximum": 5}, READS, rules("EXCLUSIVE_MAXIMUM_ADDED"), [4]),
    Case("exclusive as draft 4 says it", {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "maximum": 5, "exclusiveMaximum": True}, {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "maximum": 5}, READS, rules("EXCLUSIVE_MAXIMUM_ADDED"), [4]),
    Case("a finer multiple", {"type": "number", "multipleOf": 1}, {"type": "number", "multipleOf": 0.25}, READS, rules("MULTIPLE_OF_EXPANDED"), [3]),
    Case("another multiple", {"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 3}, rules("MULTIPLE_OF_CHANGED"), rules("MULTIPLE_OF_CHANGED")),
    Case("a multiple is added", NUMBER, {"type": "number", "multipleOf": 2}, rules("MULTIPLE_OF_ADDED"), READS, [], [4]),
    Case("longer text is allowed", {"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 4}, READS, rules("MAX_LENGTH_DECREASED"), ["abc"]),
    Case("a longest text is added", TEXT, {"type": "string", "maxLength": 4}, rules("MAX_LENGTH_ADDED"), READS, [], ["abcd"]),
    Case("shorter text is allowed", {"type": "string", "minLength": 3}, {"type": "string", "minLength": 2}, READS, rules("MIN_LENGTH_INCREASED"), ["abc"]),
    Case("a shortest text is added", TEXT, {"type": "string", "minLength": 1}, rules("MIN_LENGTH_ADDED"), READS, [], ["a"]),
    Case("a pattern for text is removed", {"type": "string", "pattern": "^a"}, TEXT, READS, rules("PATTERN_ADDED"), ["a"]),
    Case("another pattern for text", {"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}, rules("PATTERN_CHANGED"), rules("PATTERN_CHANGED")),
    Case("a limit that is not for this type", {"type": "integer"}, {"type": "integer", "maxLength": 3}, READS, READS, [12345], [12345]),
    Case("a value is added to those listed", {"enum": ["a"]}, {"enum": ["a", "b"]}, READS, rules("ENUM_ARRAY_NARROWED"), ["a"]),
    Case("other values are listed", {"enum": ["a"]}, {"enum": ["b"]}, rules("ENUM_ARRAY_CHANGED"), rules("ENUM_ARRAY_CHANGED")),
    Case("values are listed", TEXT, {"type": "string", "enum": ["a"]}, rules("ENUM_ARRAY_ADDED"), READS, [], ["a"]),
    Case("one and true are not the same", {"enum": [1]}, {"enum": [True, 1.0]}, READS, rules("ENUM_ARRAY_NARROWED"), [1]),
    Case("a constant becomes one of several", {"const": "a"}, {"enum": ["a", "b"]}, READS, rules("ENUM_ARRAY_NARROWED"), ["a"]),
    Case("items get a wider type", arr(items=WHOLE), arr(items=NUMBER), READS, NARROWED, [[1]]),
    Case("items get a type", arr(), arr(items=WHOLE), rules("ADDITIONAL_ITEMS_NARROWED"), READS, [], [[1]]),
    Case("no more items", arr(items=[WHOLE]), arr(items=[WHOLE], additionalItems=False), rules("ADDITIONAL_ITEMS_REMOVED"), READS, [], [[1]]),
    Case("closed: an item is added", arr(items=[WHOLE], additionalItems=False), arr(items=[WHOLE, TEXT], additionalItems=False), READS, rules("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"), [[1]]),
    Case("open: an item is added", arr(items=[WHOLE]), arr(items=[WHOLE, TEXT]), rules("ITEM_ADDED_TO_OPEN_CONTENT_MODEL"), READS, [], [[1, "x"]]),
    Case("open: an item without a type is added", arr(items=[WHOLE]), arr(items=[WHOLE, {}]), READS, READS, [[1, 2]], [[1, 2]]),
    Case("partly open: an added item is not covered", arr(items=[WHOLE], additionalItems=WHOLE), arr(items=[WHOLE, TEXT], additionalItems=WHOLE), rules("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"), rules("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED")),
    Case("partly open: an added item is covered", arr(items=[WHOLE], additionalItems=WHOLE), arr(items=[WHOLE, WHOLE], additionalItems=WHOLE), READS, READS, [[1, 2]], [[1, 2, 3]]),
    Case("items as 2020-12 says it", arr(prefixItems=[WHOLE], items=False, **MODERN), arr(prefixItems=[WHOLE, TEXT], items=False, **MODERN), READS, rules("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"), [[1]]),
    Case("more items are allowed", arr(maxItems=1), arr(maxItems=2), READS, rules("MAX_ITEMS_DECREASED"), [[1]]),
    Case("items are limited", arr(), arr(maxItems=2, minItems=1), rules("MAX_ITEMS_ADDED", "MIN_ITEMS_ADDED"), READS, [], [[1]]),
    Case("fewer items are enough", arr(minItems=2), arr(minItems=1), READS, rules("MIN_ITEMS_INCREASED"), [[1, 2]]),
    Case("items have to differ", arr(), arr(uniqueItems=True), rules("UNIQUE_ITEMS_ADDED"), READS, [], [[1, 2]]),
    Case("an item has to be there", arr(), arr(contains=WHOLE), rules("CONTAINS_ADDED"), READS, [], [[1]]),
    Case("a wider item has to be there", arr(contains=WHOLE), arr(contains=NUMBER), READS, NARROWED, [[1]]),
    Case("oneOf gains a branch", {"oneOf": [WHOLE]}, {"oneOf": [WHOLE, TEXT]}, READS, rules("SUM_TYPE_NARROWED"), [1]),
    Case("oneOf gains a branch that overlaps", {"oneOf": [WHOLE]}, {"oneOf": [WHOLE, NUMBER]}, rules("SUM_TYPE_OVERLAPS"), rules("SUM_TYPE_NARROWED")),
    Case("oneOf of tagged objects gains one", {"oneOf": [tagged("a", x=WHOLE)]}, {"oneOf": [tagged("a", x=WHOLE), tagged("b")]}, READS, rules("SUM_TYPE_NARROWED"), [{"kind": "a", "x": 1}]),
    Case("a branch becomes wider", {"anyOf": [WHOLE, NULL]}, {"anyOf": [NUMBER, NULL]}, READS, rules("COMBINED_TYPE_SUBSCHEMAS_CHANGED"), [1, None]),
    Case("a branch is replaced", {"anyOf": [WHOLE, NULL]}, {"anyOf": [TEXT, NULL]}, rules("COMBINED_TYPE_SUBSCHEMAS_CHANGED"), rules("COMBINED_TYPE_SUBSCHEMAS_CHANGED")),
    Case("oneOf becomes anyOf", {"oneOf": [WHOLE, TEXT]}, {"anyOf": [WHOLE, TEXT]}, READS, rules("COMBINED_TYPE_CHANGED"), [1, "x"]),
    Case("a type becomes one of several", WHOLE, {"oneOf": [WHOLE, NULL]}, READS, NARROWED, [1]),
    Case("a type becomes none of several", WHOLE, {"anyOf": [TEXT, NULL]}, CHANGED, NARROWED),
    Case("several become one type that holds them", {"anyOf": [WHOLE, NUMBER]}, NUMBER, READS, READS, [1, 0.5], [1]),
    Case("allOf asks for more", {"allOf": [{"maxLength": 5}]}, {"allOf": [{"maxLength": 5}, {"minLength": 1}]}, rules("PRODUCT_TYPE_EXTENDED"), READS, [], ["abc"]),
    Case("allOf asks for something else", {"allOf": [{"maxLength": 5}]}, {"allOf": [{"minLength": 1}]}, rules("COMBINED_TYPE_SUBSCHEMAS_CHANGED"), rules("COMBINED_TYPE_SUBSCHEMAS_CHANGED")),
    Case("what was in allOf stands by itself", {"allOf": [{"maxLength": 5}]}, {"maxLength": 5}, READS, READS, ["abc"], ["abc"]),
    Case("less is excluded", {"not": {"type": ["string", "null"]}}, {"not": TEXT}, READS, rules("NOT_TYPE_EXTENDED"), [1]),
    Case("something is excluded", {}, {"not": TEXT}, rules("NOT_TYPE_EXTENDED"), READS, [], [1]),
    Case("a condition is put to anything", True, {"if": TEXT, "then": {"maxLength": 3}}, rules("CONDITION_ADDED"), READS, [], ["abc"]),
    Case("allOf is put to anything", True, {"allOf": [TEXT]}, rules("PRODUCT_TYPE_EXTENDED"), READS, [], ["abc"]),
    Case("a condition is added", obj({}), obj({}, **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}), rules("CONDITION_ADDED"), READS, [], [{"a": 1, "b": 2}]),
    Case("a condition is another", obj({}, **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}), obj({}, **{"if": {"required": ["c"]}, "then": {"required": ["b"]}}), rules("CONDITION_CHANGED"), rules("CONDITION_CHANGED")),
    Case("a condition asks for less", obj({}, **{"if": {"required": ["a"]}, "then": {"required": ["b", "c"]}}), obj({}, **{"if": {"required": ["a"]}, "then": {"required": ["b"]}}), READS, rules("REQUIRED_ATTRIBUTE_ADDED"), [{"a": 1, "b": 2, "c": 3}]),
    Case("a schema that holds itself is widened", tree(WHOLE), tree(NUMBER), READS, NARROWED, [{"v": 1, "next": {"v": 2}}]),
    Case("a reference and words beside it", {**MODERN, "$defs": {"t": TEXT}, "$ref": "#/$defs/t", "maxLength": 3}, {**MODERN, "$defs": {"t": TEXT}, "$ref": "#/$defs/t"}, READS, rules("MAX_LENGTH_ADDED"), ["abc"]),
    Case("a reference becomes what it meant", {"$ref": "#/definitions/t", "definitions": {"t": A}}, A, READS, READS, [{"a": "x"}], [{"a": "x"}]),
]
# fmt: on
