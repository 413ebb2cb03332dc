"""Avro: a case for each rule; what is judged readable is really read; at least as strict as Apache's own checker."""

import io
import json
from typing import Any

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from eventlib.registry.compatibility import Level, incompatibilities, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, SchemaType, parse
from tests.unit.registry.avro_cases import CASES, A, given, record
from tests.unit.registry.evolution import Case


def parsed(schema: Any) -> Parsed:
    return parse(SchemaType.AVRO, json.dumps(schema))


def through(value: Any, writer: Any, reader: Any) -> Any:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(writer), value)
    out.seek(0)
    found = schemaless_reader(out, parse_schema(writer), parse_schema(reader))
    assert not out.read()
    return found


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_each_level_finds_just_the_rules_that_are_broken(case: Case) -> None:
    for level in Level:
        found = incompatibilities(SchemaType.AVRO, parsed(case.new), [parsed(case.old)], level)
        assert {each.rule for each in found} == case.expected(level)
        assert all(each.path.startswith("/") and each.message for each in found)


@each_case
def test_what_is_readable_is_really_read(case: Case) -> None:
    assert (not case.backward) <= bool(case.old_data)
    assert (not case.forward) <= bool(case.new_data)
    for value in [] if case.backward else case.old_data:
        through(value, case.old, case.new)
    for value in [] if case.forward else case.new_data:
        through(value, case.new, case.old)


@each_case
def test_apaches_own_checker_agrees(case: Case) -> None:
    for reader, writer, broken in ((case.new, case.old, case.backward), (case.old, case.new, case.forward)):
        if broken == {"LOGICAL_TYPE_MISMATCH"}:
            continue  # which it leaves to its user
        one, other = (avro.schema.parse(json.dumps(each)) for each in (reader, writer))
        found = ReaderWriterCompatibilityChecker().get_compatibility(one, other)  # type: ignore[no-untyped-call]  # Apache's
        readable = found.compatibility is SchemaCompatibilityType.compatible
        assert readable == (not broken)


def test_a_renamed_field_keeps_its_value() -> None:
    new = record({"name": "b", "type": "long", "aliases": ["a"]}, given("c", "string", "?"))
    assert through({"a": 5}, A, new) == {"b": 5, "c": "?"}


def test_only_a_transitive_level_looks_further_back_than_the_latest() -> None:
    first, second = record(("a", "int")), record(("a", "int"), given("b", "string", "x"))
    third = record(("a", "int"), ("b", "string"))
    old = [parsed(first), parsed(second)]
    assert incompatibilities(SchemaType.AVRO, parsed(third), old, Level.BACKWARD) == []
    found = incompatibilities(SchemaType.AVRO, parsed(third), old, Level.BACKWARD_TRANSITIVE)
    assert [(each.rule, each.path) for each in found] == [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")]


def test_another_format_is_another_subject() -> None:
    old = parse(SchemaType.JSON, "{}")
    assert [each.rule for each in incompatibilities(SchemaType.AVRO, parsed(A), [old], Level.FULL)] == [
        "SCHEMA_TYPE_CHANGED"
    ]
    assert incompatibilities(SchemaType.AVRO, parsed(A), [old], Level.NONE) == []


def test_the_sentence_says_what_to_do() -> None:
    [found] = unreadable(reader=parsed(record(("a", "int"), ("b", "string"))), writer=parsed(A))
    assert found.path == "/fields/1"
    assert "give it a default" in found.message


def test_what_was_read_under_a_wrong_assumption_is_looked_at_again() -> None:
    """Inside the first branch, X is compared while R counts as readable; R turns out not to be, and X with it."""
    old = record(
        ("x", {"type": "record", "name": "X", "fields": [{"name": "r", "type": ["null", "R"]}]}), ("bad", "int")
    )
    new = record(
        ("x", {"type": "record", "name": "X", "fields": [{"name": "r", "type": ["null", "R"]}]}), ("bad", "string")
    )
    wrapped = [
        {"type": "record", "name": "W", "fields": [{"name": "u", "type": ["null", each]}, {"name": "x", "type": "X"}]}
        for each in (old, new)
    ]
    found = unreadable(reader=parsed(wrapped[1]), writer=parsed(wrapped[0]))
    assert {each.path for each in found} == {"/fields/0/type/1", "/fields/1/type/fields/0/type/1"}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (record({"name": "a", "type": "int", "default": "x"}), "/fields/0/default"),
        (record({"name": "a", "type": "int", "default": 1 << 31}), "/fields/0/default"),
        (record({"name": "a", "type": "boolean", "default": 0}), "/fields/0/default"),
        (record({"name": "a", "type": {"type": "array", "items": "int"}, "default": [1, "x"]}), "/fields/0/default"),
        (record({"name": "a", "type": record(("b", "int"), name="P"), "default": {}}), "/fields/0/default"),
        (
            record({"name": "a", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "abc"}),
            "/fields/0/default",
        ),
        (record(("a", "int"), ("a", "int")), "/fields/1/name"),
        (record(("a-b", "int")), "/fields/0/name"),
        (record(("a", "Nothing")), "'Nothing'"),
        (record(("a", record(("b", "int")))), "/fields/0/type/name"),
        ({"type": "record", "name": "R"}, "fields"),
        ({"type": "record", "fields": []}, "/name"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "/symbols"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "/default"),
        ({"type": "enum", "name": "E", "symbols": "A"}, "/symbols"),
        ({"type": "fixed", "name": "F", "size": -1}, "/size"),
        (["int", "int"], "/1"),
        ([["int"], "null"], "/0"),
        ({"type": "array"}, "items"),
        ({"name": "x"}, "/"),
        (5, "/"),
        ({"type": "record", "name": "string", "fields": []}, "/name"),
        (record({"name": "a", "type": "int", "order": "up"}), "/fields/0/order"),
        (record({"name": "a", "type": "int", "aliases": "b"}), "/fields/0/aliases"),
    ],
    ids=str,
)
def test_what_is_no_schema_is_refused_with_its_place(schema: Any, place: str) -> None:
    with pytest.raises(InvalidSchema, match=place):
        parsed(schema)


@pytest.mark.parametrize(
    "text", ["", "{", "nul", "NaN", '{"type":"array","items":' * 5_000, '"\\ud800"', "[" * 100_000]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(SchemaType.AVRO, text)


def test_a_schema_may_refer_to_another() -> None:
    line = json.dumps(
        {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
    )
    order = json.dumps(record(("lines", {"type": "array", "items": "shop.Line"})))
    found = parse(SchemaType.AVRO, order, {"shop.Line": line})
    assert found.text == order.replace(" ", "")
    with pytest.raises(InvalidSchema, match=r"shop\.Line"):
        parse(SchemaType.AVRO, order)
