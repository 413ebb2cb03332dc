"""Protocol Buffers: a case for each rule; what is judged readable is really read, by dynamic messages."""

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pool, json_format, message_factory

from eventlib.registry.compatibility import Level, incompatibilities, unreadable
from eventlib.registry.parsing import InvalidSchema, Parsed, SchemaType, parse
from eventlib.registry.parsing.proto_text import proto_text
from tests.unit.registry.evolution import Case
from tests.unit.registry.protobuf_cases import CASES, A, m


def parsed(text: str) -> Parsed:
    return parse(SchemaType.PROTOBUF, text)


def message_class(schema: Parsed) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file = schema.model.file()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.M"))


def made(schema: Parsed, values: dict[str, Any]) -> Any:
    encoded = {
        name: base64.b64encode(each).decode() if isinstance(each, bytes) else each for name, each in values.items()
    }
    return json_format.ParseDict(encoded, message_class(schema)())


each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_each_level_finds_just_the_rules_that_are_broken(case: Case) -> None:
    for level in Level:
        found = incompatibilities(SchemaType.PROTOBUF, parsed(case.new), [parsed(case.old)], level)
        assert {each.rule for each in found} == case.expected(level)
        assert all(each.path.startswith("#/") and each.message for each in found)


@each_case
def test_what_is_readable_is_really_read(case: Case) -> None:
    assert (not case.backward) <= bool(case.old_data)
    assert (not case.forward) <= bool(case.new_data)
    old, new = parsed(case.old), parsed(case.new)
    for writer, reader, values, broken in (
        (old, new, case.old_data, case.backward),
        (new, old, case.new_data, case.forward),
    ):
        for each in [] if broken else values:
            written = made(writer, each)
            read = message_class(reader).FromString(written.SerializeToString())
            assert read.IsInitialized()
            # Nothing is lost on the way: who wrote it would read it back just so.
            assert type(written).FromString(read.SerializeToString()) == written


def test_the_place_is_the_message_and_the_number() -> None:
    [found] = unreadable(reader=parsed(m("string a = 1;")), writer=parsed(A))
    assert (found.rule, found.path) == ("FIELD_SCALAR_KIND_CHANGED", "#/M/1")
    assert "add a new field instead" in found.message


def test_a_schema_may_import_another() -> None:
    text = 'syntax = "proto3"; package shop; import "p.proto"; message M { P p = 1; }'
    p = 'syntax = "proto3"; package shop; message P { int32 x = 1; }'
    one = parse(SchemaType.PROTOBUF, text, {"p.proto": p})
    other = parse(SchemaType.PROTOBUF, text, {"p.proto": p.replace("int32", "string")})
    assert [each.rule for each in unreadable(reader=other, writer=one)] == [
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_NAMED_TYPE_CHANGED",
    ]
    with pytest.raises(InvalidSchema, match=r"p\.proto"):
        parsed(text)


EVERYTHING = [
    """
    syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; option java_package = "x.y";
    message M {
      string x = 1 [deprecated = true]; optional int32 y = 2; map<string, N> m = 3;
      oneof o { int32 z = 4; string w = 5; }
      reserved 9, 11 to 20, 100 to max; reserved "foo"; google.protobuf.Timestamp at = 6;
      repeated int32 r = 7 [packed = false, json_name = "rr"]; E e = 8;
      message N { M m = 1; }
      enum E { option allow_alias = true; A = 0; B = 0 [deprecated = true]; reserved 5, 7 to 9; reserved "Q"; }
    }
    service S { rpc Do (M) returns (stream M.N); }
    """,
    r"""
    syntax = "proto2"; message M {
      required int32 a = 1 [default = 3]; optional string s = 2 [default = "a\"b\n"];
      message Before { } optional group G = 3 { optional int32 q = 1; } message After { }
      extensions 100 to 199; optional bytes b = 4 [default = "\001z\""]; optional float f = 5 [default = inf];
    }
    extend M { optional int32 ext = 100; }
    """,
    """
    edition = "2023";
    message M { int32 a = 1 [features.field_presence = IMPLICIT]; reserved foo; repeated int32 r = 2; }
    """,
]


@pytest.mark.parametrize("text", EVERYTHING)
def test_a_descriptor_becomes_the_text_that_compiles_to_it(text: str) -> None:
    compiled = parsed(text).model.main
    assert parsed(proto_text(parsed(text).model.file())).model.main == compiled
    assert parsed(base64.b64encode(compiled).decode()).model.main == compiled


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "defines no message"),
        ("foo", "neither"),
        ("AAAA", "neither"),
        ("message", "neither"),
        ('syntax = "proto3"; message M {', "missing '}'"),
        ('syntax = "proto3"; message M { nothing a = 1; }', "nothing"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "1"),
        ('syntax = "proto3"; import "../../etc/passwd"; message M { }', "not allowed"),
        ('syntax = "proto3"; import "p.proto"; message M { }', "not found"),
        ('syntax = "proto3"; ' + "message A { " * 500 + "}" * 500, "recursion"),
        ("\0", "control"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_does_not_compile_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parsed(text)


@pytest.mark.parametrize("name", ["../p.proto", "/etc/p.proto", "", "a" * 300, "a/../../b.proto"])
def test_a_references_name_stays_inside(name: str) -> None:
    with pytest.raises(InvalidSchema, match="no path"):
        parse(SchemaType.PROTOBUF, A, {name: A})
