"""JSON Schema: of any two schemas, one that is said to accept what the other does really accepts it, value by value."""

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from eventlib.registry.compatibility import unreadable
from eventlib.registry.parsing import SchemaType, parse
from eventlib.registry.parsing.parse import compact

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
