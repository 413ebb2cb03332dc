"""How Protocol Buffers schemas evolve, rule by rule."""

from tests.unit.registry.evolution import READS, Case, rules


def m(*fields: str, also: str = "", syntax: str = "proto3", package: str = "shop") -> str:
    return f'syntax = "{syntax}"; package {package}; message M {{ {" ".join(fields)} }} {also}'


def m2(*fields: str) -> str:
    return m(*fields, syntax="proto2")


ONE = [{"a": 1}]
A = m("int32 a = 1;")
SCALAR, KIND, NAMED = rules("FIELD_SCALAR_KIND_CHANGED"), rules("FIELD_KIND_CHANGED"), rules("FIELD_NAMED_TYPE_CHANGED")
LABEL, REQUIRED, UNREQUIRED = (
    rules("FIELD_NUMERIC_LABEL_CHANGED"),
    rules("REQUIRED_FIELD_ADDED"),
    rules("REQUIRED_FIELD_REMOVED"),
)
TOGETHER, INTO, LEFT = (
    rules("MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
    rules("FIELD_MOVED_TO_EXISTING_ONEOF"),
    rules("ONEOF_FIELD_REMOVED"),
)
GONE, REUSED = rules("MESSAGE_REMOVED"), rules("FIELD_NUMBER_REUSED")
P, Q = "message P { int32 x = 1; }", "message P { string x = 1; }"

# One case, one line.
# fmt: off
CASES = [
    Case("nothing changes", A, A, READS, READS, ONE, ONE),
    Case("a field is added", A, m("int32 a = 1;", "string b = 2;"), READS, READS, ONE, [{"a": 1, "b": "x"}]),
    Case("a field is removed", m("int32 a = 1;", "string b = 2;"), A, READS, READS, [{"a": 1, "b": "x"}], ONE),
    Case("a field is renamed", A, m("int32 z = 1;"), READS, READS, ONE, [{"z": 1}]),
    Case("a field's number is taken for another type", m("string a = 1;"), A, SCALAR, SCALAR),
    Case("int32 to int64 and back", A, m("int64 a = 1;"), READS, READS, ONE, ONE),
    Case("int32 to uint64 and back", A, m("uint64 a = 1;"), READS, READS, ONE, ONE),
    Case("int32 to bool and back", A, m("bool a = 1;"), READS, READS, ONE, [{"a": True}]),
    Case("int32 to an enum and back", A, m("E a = 1;", also="enum E { Z = 0; Y = 1; }"), READS, READS, ONE, [{"a": 1}]),
    Case("int32 to sint32", A, m("sint32 a = 1;"), SCALAR, SCALAR),
    Case("sint32 to sint64 and back", m("sint32 a = 1;"), m("sint64 a = 1;"), READS, READS, [{"a": -5}], [{"a": -5}]),
    Case("fixed32 to sfixed32 and back", m("fixed32 a = 1;"), m("sfixed32 a = 1;"), READS, READS, ONE, ONE),
    Case("fixed64 to sfixed64 and back", m("fixed64 a = 1;"), m("sfixed64 a = 1;"), READS, READS, ONE, ONE),
    Case("fixed32 to fixed64", m("fixed32 a = 1;"), m("fixed64 a = 1;"), SCALAR, SCALAR),
    Case("float to double", m("float a = 1;"), m("double a = 1;"), SCALAR, SCALAR),
    Case("string to bytes and back", m("string a = 1;"), m("bytes a = 1;"), READS, READS, [{"a": "x"}], [{"a": b"x"}]),
    Case("a scalar becomes a message", A, m("P a = 1;", also=P), KIND, KIND | GONE),
    Case("a scalar becomes a map", A, m("map<string, int32> a = 1;"), KIND, KIND),
    Case("a map's value becomes wider", m("map<string, int32> a = 1;"), m("map<string, int64> a = 1;"), READS, READS, [{"a": {"k": 1}}], [{"a": {"k": 1}}]),
    Case("a map's value becomes another", m("map<string, int32> a = 1;"), m("map<string, string> a = 1;"), SCALAR, SCALAR),
    Case("a map's key becomes another", m("map<string, int32> a = 1;"), m("map<int32, int32> a = 1;"), SCALAR, SCALAR),
    Case("another message in a field", m("P a = 1;", also=P + "message O { int32 x = 1; }"), m("O a = 1;", also=P + "message O { int32 x = 1; }"), NAMED, NAMED),
    Case("a message in a field changes", m("P a = 1;", also=P), m("P a = 1;", also=Q), NAMED | SCALAR, NAMED | SCALAR),
    Case("a message in a field gains a field", m("P a = 1;", also=P), m("P a = 1;", also="message P { int32 x = 1; int32 y = 2; }"), READS, READS, [{"a": {"x": 1}}], [{"a": {"x": 1, "y": 2}}]),
    Case("a number becomes a list", A, m("repeated int32 a = 1;"), LABEL, LABEL),
    Case("text becomes a list", m("string a = 1;"), m("repeated string a = 1;"), READS, READS, [{"a": "x"}], [{"a": ["x"]}]),
    Case("a field's presence is tracked", A, m("optional int32 a = 1;"), READS, READS, ONE, ONE),
    Case("a message is added", A, m("int32 a = 1;", also=P), READS, GONE, ONE),
    Case("a message is removed", m("int32 a = 1;", also=P), A, GONE, READS, [], ONE),
    Case("a message within is removed", m("int32 a = 1;", P), A, GONE, READS, [], ONE),
    Case("messages change places", m("int32 a = 1;", also=P), 'syntax = "proto3"; package shop; ' + P + " message M { int32 a = 1; }", READS, READS, ONE, ONE),
    Case("an enum is added", A, m("int32 a = 1;", also="enum E { Z = 0; }"), READS, READS, ONE, ONE),
    Case("an enum gains a value", m("E a = 1;", also="enum E { Z = 0; }"), m("E a = 1;", also="enum E { Z = 0; Y = 1; }"), READS, READS, [{"a": 0}], ONE),
    Case("an enum becomes a message", m("int32 a = 1;", also="enum E { Z = 0; }"), m("int32 a = 1;", also="message E { }"), rules("ENUM_REMOVED"), GONE),
    Case("another package", A, m("int32 a = 1;", package="store"), rules("PACKAGE_CHANGED"), rules("PACKAGE_CHANGED")),
    Case("one field moves into a new oneof", m("int32 a = 1;", "string b = 2;"), m("oneof o { int32 a = 1; }", "string b = 2;"), READS, READS, [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
    Case("two fields move into a oneof", m("int32 a = 1;", "string b = 2;"), m("oneof o { int32 a = 1; string b = 2; }"), TOGETHER, READS, [], ONE),
    Case("a field moves into a oneof that is there", m("oneof o { int32 a = 1; }", "string b = 2;"), m("oneof o { int32 a = 1; string b = 2; }"), INTO, READS, [], ONE),
    Case("two oneofs become one", m("oneof o { int32 a = 1; }", "oneof p { string b = 2; }"), m("oneof o { int32 a = 1; string b = 2; }"), TOGETHER, READS, [], ONE),
    Case("a oneof gains a field", m("oneof o { int32 a = 1; }"), m("oneof o { int32 a = 1; string b = 2; }"), READS, LEFT, ONE),
    Case("a oneof loses a field", m("oneof o { int32 a = 1; string b = 2; }"), m("oneof o { int32 a = 1; }"), LEFT, READS, [], ONE),
    Case("a oneof is renamed", m("oneof o { int32 a = 1; string b = 2; }"), m("oneof q { int32 a = 1; string b = 2; }"), READS, READS, ONE, ONE),
    Case("a oneof's field becomes another", m("oneof o { int32 a = 1; }"), m("oneof o { string a = 1; }"), SCALAR, SCALAR),
    Case("a required field is added", m2("optional int32 a = 1;"), m2("optional int32 a = 1;", "required int32 b = 2;"), REQUIRED, UNREQUIRED),
    Case("a field becomes required", m2("optional int32 a = 1;"), m2("required int32 a = 1;"), REQUIRED, READS, [], ONE),
    Case("proto2 becomes proto3", m2("optional int32 a = 1;"), A, READS, READS, ONE, ONE),
    Case("a number is reserved", m("int32 a = 1;", "int32 b = 2;"), m("int32 a = 1;", "reserved 2;"), READS, REUSED, [{"a": 1, "b": 2}]),
    Case("a reserved number is used again", m("int32 a = 1;", "reserved 2 to 4;"), m("int32 a = 1;", "string c = 3;"), REUSED, READS, [], ONE),
    Case("a message that holds itself is widened", m("int32 a = 1;", "M next = 2;"), m("int64 a = 1;", "M next = 2;"), READS, READS, [{"a": 1, "next": {"a": 2}}], [{"a": 1, "next": {"a": 2}}]),
    Case("a message that holds itself changes", m("int32 a = 1;", "M next = 2;"), m("string a = 1;", "M next = 2;"), SCALAR, SCALAR),
]
# fmt: on
