"""JSON Schema: a case for each rule; of any two schemas, what is judged readable is really valid, value by value."""

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from jsonschema.validators import validator_for

from eventlib.registry.compatibility import Level, incompatibilities, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, SchemaType, parse
from eventlib.registry.parsing.parse import compact
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


SCALARS: list[Any] = [None, True, False, 0, 1, 2, 3, 1.5, -1, "", "a", "b", "ab", "abc"]
SMALL: list[Any] = [None, 1, 2, "a", "abc"]
OBJECTS = [
    {name: value for name, value in zip(("a", "b", "ab"), values, strict=True) if value != "nothing"}
    for values in itertools.product([*SMALL, "nothing"], [1, "a", "nothing"], [2, "abc", "nothing"])
]
ARRAYS = [list(each) for size in range(4) for each in itertools.product([1, "a", None], repeat=size)]
VALUES = [*SCALARS, *OBJECTS, *ARRAYS, {"a": {"a": 1}}, {"a": {"a": "a", "b": 2}}, {"a": [1]}, [[1]], [{"a": 1}]]

SIMPLE = st.one_of(
    st.sampled_from([True, False, {}, {"type": ["string", "null"]}, {"type": ["integer", "string"]}]),
    st.sampled_from(["string", "integer", "number", "null", "boolean", "object", "array"]).map(lambda of: {"type": of}),
    st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]).flatmap(
        lambda word: st.integers(0, 3).map(lambda bound: {"type": "number", word: bound})
    ),
    st.sampled_from(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]).flatmap(
        lambda word: st.integers(0, 3).map(lambda bound: {word: bound})
    ),
    st.sampled_from([1, 2, 0.5]).map(lambda of: {"type": "number", "multipleOf": of}),
    st.sampled_from(["^a", "b$", "a"]).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3, unique_by=repr).map(lambda of: {"enum": of}),
    st.sampled_from(SCALARS).map(lambda of: {"const": of}),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "ab"])
    objects = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(names, inner, max_size=2),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
            "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "^a"}, {"enum": ["a"]}]),
            "dependencies": st.dictionaries(names, st.lists(names, max_size=1) | inner, max_size=1),
        },
    )
    arrays = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("array"),
            "items": inner.filter(lambda of: not isinstance(of, bool)) | st.lists(inner, min_size=1, max_size=2),
            "additionalItems": st.booleans() | inner,
            "contains": inner,
            "uniqueItems": st.booleans(),
        },
    )
    combined = st.one_of(
        st.sampled_from(["allOf", "anyOf"]).flatmap(
            lambda word: st.lists(inner, min_size=1, max_size=3).map(lambda of: {word: of})
        ),
        inner.map(lambda of: {"not": of}),
        st.tuples(inner, inner).map(lambda of: {"if": of[0], "then": of[1]}),
    )
    both = st.tuples(objects | arrays, combined).map(lambda of: {**of[0], **of[1]})
    return st.one_of(objects, arrays, combined, both)


SCHEMAS = st.recursive(SIMPLE, _nested, max_leaves=5)


def changed(schema: Any) -> st.SearchStrategy[Any]:
    """Return schemas that differ from one in a keyword, besides any others: those are the ones that read each other."""
    if not isinstance(schema, dict) or not schema:
        return SCHEMAS
    fewer = st.sampled_from(sorted(schema)).map(lambda word: {k: v for k, v in schema.items() if k != word})
    more = SCHEMAS.map(lambda other: {**schema, **other} if isinstance(other, dict) else other)
    wrapped = st.sampled_from([{"anyOf": [schema, {"type": "null"}]}, {"allOf": [schema]}])
    return st.one_of(fewer, more, wrapped, SCHEMAS)


PAIRS = SCHEMAS.flatmap(lambda old: st.tuples(st.just(old), changed(old)))


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
@given(pair=PAIRS)
def test_what_is_said_to_be_readable_is_valid(pair: tuple[Any, Any]) -> None:
    old, new = pair
    for written, reader in ((old, new), (new, old)):
        one, other = (parse(SchemaType.JSON, compact(each)) for each in (written, reader))
        if unreadable(reader=other, writer=one):
            continue
        before, after = Draft7Validator(written), Draft7Validator(reader)
        for value in VALUES:
            assert after.is_valid(value) or not before.is_valid(value), value
