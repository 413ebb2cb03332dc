"""JSON Schema: a case for each rule; what is judged readable is really valid for the reader."""

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft7Validator
from jsonschema.validators import validator_for

from eventlib.registry.compatibility import Level, incompatibilities, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, SchemaType, parse
from tests.unit.registry.evolution import Case
from tests.unit.registry.json_cases import CASES, TEXT, WHOLE, obj


def parsed(schema: Any) -> Parsed:
    return parse(SchemaType.JSON, json.dumps(schema))


def is_valid(value: Any, schema: Any) -> bool:
    return bool(validator_for(schema, default=Draft7Validator)(schema).is_valid(value))


def with_defaults(value: Any, schema: Any) -> Any:
    """Return an object as who reads it with a schema sees it: defaults of properties stand for what is missing."""
    filled = copy.deepcopy(value)
    if isinstance(schema, dict) and isinstance(filled, dict):
        for name, each in schema.get("properties", {}).items():
            if isinstance(each, dict) and "default" in each:
                filled.setdefault(name, each["default"])
    return filled


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_each_level_finds_just_the_rules_that_are_broken(case: Case) -> None:
    for level in Level:
        found = incompatibilities(SchemaType.JSON, parsed(case.new), [parsed(case.old)], level)
        assert {each.rule for each in found} == case.expected(level)
        assert all(each.path.startswith("#") and each.message for each in found)


@each_case
def test_what_is_readable_is_really_read(case: Case) -> None:
    assert (not case.backward) <= bool(case.old_data)
    assert (not case.forward) <= bool(case.new_data) or case.new is False  # with which nothing can be written
    for written, reader, values, broken in (
        (case.old, case.new, case.old_data, case.backward),
        (case.new, case.old, case.new_data, case.forward),
    ):
        for value in [] if broken else values:
            assert is_valid(value, written)
            assert is_valid(with_defaults(value, reader), reader)


def test_the_place_is_a_pointer_into_the_schema() -> None:
    old = obj({"line": obj({"sku": TEXT}, additionalProperties=False)})
    new = obj({"line": obj({"sku": WHOLE}, additionalProperties=False)})
    [found] = unreadable(reader=parsed(new), writer=parsed(old))
    assert (found.rule, found.path) == ("TYPE_CHANGED", "#/properties/line/properties/sku/type")
    assert "string was valid, and now only integer" in found.message


def test_a_schema_may_refer_to_another() -> None:
    text = json.dumps(obj({"line": {"$ref": "line.json"}}))
    found = parse(SchemaType.JSON, text, {"line.json": json.dumps(TEXT)})
    other = parse(SchemaType.JSON, text, {"line.json": json.dumps(WHOLE)})
    assert [each.rule for each in unreadable(reader=other, writer=found)] == ["TYPE_CHANGED"]
    with pytest.raises(InvalidSchema, match=r"line\.json.*leads to nothing"):
        parse(SchemaType.JSON, text)


def test_a_reference_may_lead_to_a_schema_anywhere() -> None:
    schema = {"$ref": "#/shapes/line", "shapes": {"line": {"$ref": "#/shapes/text"}, "text": TEXT}}
    assert unreadable(reader=parsed(TEXT), writer=parsed(schema)) == []


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "3", "[]", "null", '{"type":"text"}', '{"minLength":"x"}', '{"pattern":"("}', '{"$ref":"#/nowhere"}',
        '{"$ref":"#"}', '{"$ref":"http://127.0.0.1:9/x"}', '{"$schema":3}', '{"$id":3}', '{"required":"a"}',
        '{"properties":{"default":{"$ref":"#/nowhere"}}}', '{"$ref":"#/x","x":{"type":3}}', '{"$ref":"#/x","x":5}',
        '{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"$ref":"#/a"}}', '{"not":' * 5_000, '{"not":' * 250 + "{}" + "}" * 250,
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(SchemaType.JSON, text)
