"""How Avro schemas evolve, rule by rule."""

from decimal import Decimal
from typing import Any

from tests.unit.registry.evolution import READS, Case, rules

INT, LONG, TEXT = "int", "long", "string"


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    made = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def given(name: str, of: Any, default: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, "default": default, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": [*symbols], **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


A = record(("a", INT))
ONE = [{"a": 1}]
MISSING, MISMATCH, BRANCH = (
    rules("READER_FIELD_MISSING_DEFAULT_VALUE"), rules("TYPE_MISMATCH"), rules("MISSING_UNION_BRANCH"),
)  # fmt: skip
NAME, SYMBOLS, SIZE, LOGICAL = (
    rules("NAME_MISMATCH"), rules("MISSING_ENUM_SYMBOLS"), rules("FIXED_SIZE_MISMATCH"), rules("LOGICAL_TYPE_MISMATCH"),
)  # fmt: skip
TREE = record(("v", INT), ("next", ["null", "R"]))
NAMED = record(("a", record(("x", INT), name="P")), ("b", "P"))

# One case, one line.
# fmt: off
CASES = [
    Case("nothing changes", A, A, READS, READS, ONE, ONE),
    Case("a field with a default is added", A, record(("a", INT), given("b", TEXT, "?")), READS, READS, ONE, [{"a": 1, "b": "x"}]),
    Case("a field without a default is added", A, record(("a", INT), ("b", TEXT)), MISSING, READS, ONE, [{"a": 1, "b": "x"}]),
    Case("a field with a default is removed", record(("a", INT), given("b", INT, 3)), A, READS, READS, [{"a": 1, "b": 2}], ONE),
    Case("a field without a default is removed", record(("a", INT), ("b", INT)), A, READS, MISSING, [{"a": 1, "b": 2}], ONE),
    Case("an optional field is added", A, record(("a", INT), given("b", ["null", INT], None)), READS, READS, ONE, [{"a": 1, "b": 2}]),
    Case("fields change places", record(("a", INT), ("b", TEXT)), record(("b", TEXT), ("a", INT)), READS, READS, [{"a": 1, "b": "x"}], [{"a": 1, "b": "x"}]),
    Case("a field is renamed", A, record(("b", INT)), MISSING, MISSING),
    Case("a field is renamed with an alias", A, record({"name": "b", "type": INT, "aliases": ["a"]}), READS, MISSING, ONE),
    Case("a field with a default is renamed with an alias", record(given("a", INT, 0)), record(given("b", INT, 0, aliases=["a"])), READS, READS, ONE, [{"b": 1}]),
    Case("a second alias is the one", A, record({"name": "c", "type": INT, "aliases": ["b", "a"]}), READS, MISSING, ONE),
    Case("an aliased field is of another type", A, record({"name": "b", "type": TEXT, "aliases": ["a"]}), MISMATCH, MISSING),
    Case("a record is renamed", A, record(("a", INT), name="Q"), NAME, NAME),
    Case("a record is renamed with an alias", A, record(("a", INT), name="Q", aliases=["R"]), READS, NAME, ONE),
    Case("a record moves to another namespace", record(("a", INT), namespace="x"), record(("a", INT), namespace="y"), READS, READS, ONE, ONE),
    Case("int to long", A, record(("a", LONG)), READS, MISMATCH, ONE),
    Case("int to float", A, record(("a", "float")), READS, MISMATCH, ONE),
    Case("int to double", A, record(("a", "double")), READS, MISMATCH, ONE),
    Case("long to float", record(("a", LONG)), record(("a", "float")), READS, MISMATCH, ONE),
    Case("long to double", record(("a", LONG)), record(("a", "double")), READS, MISMATCH, ONE),
    Case("float to double", record(("a", "float")), record(("a", "double")), READS, MISMATCH, [{"a": 0.5}]),
    Case("string to bytes and back", record(("a", TEXT)), record(("a", "bytes")), READS, READS, [{"a": "x"}], [{"a": b"x"}]),
    Case("int to string", A, record(("a", TEXT)), MISMATCH, MISMATCH),
    Case("boolean to int", record(("a", "boolean")), A, MISMATCH, MISMATCH),
    Case("a type becomes optional", A, record(("a", ["null", INT])), READS, MISMATCH, ONE),
    Case("a type becomes optional and wider", A, record(("a", ["null", LONG])), READS, MISMATCH, ONE),
    Case("a branch is added", record(("a", ["null", INT])), record(("a", ["null", INT, TEXT])), READS, BRANCH, [{"a": 1}, {"a": None}]),
    Case("branches change places", record(("a", [INT, TEXT])), record(("a", [TEXT, INT])), READS, READS, [{"a": 1}, {"a": "x"}], [{"a": "x"}]),
    Case("a branch is replaced", record(("a", [INT, "null"])), record(("a", [TEXT, "null"])), BRANCH, BRANCH),
    Case("a branch becomes wider", record(("a", ["null", INT])), record(("a", ["null", LONG])), READS, BRANCH, [{"a": 7}]),
    Case("a union of one is that one", record(("a", [INT])), A, READS, READS, ONE, ONE),
    Case("a union's record gains a field", record(("a", ["null", record(("x", INT), name="P")])), record(("a", ["null", record(("x", INT), ("y", INT), name="P")])), BRANCH, READS, [], [{"a": {"x": 1, "y": 2}}]),
    Case("a union's record gains a field with a default", record(("a", ["null", record(("x", INT), name="P")])), record(("a", ["null", record(("x", INT), given("y", INT, 0), name="P")])), READS, READS, [{"a": {"x": 1}}], [{"a": {"x": 1, "y": 2}}]),
    Case("a symbol is added", record(("a", enum("A"))), record(("a", enum("A", "B"))), READS, SYMBOLS, [{"a": "A"}]),
    Case("a symbol is added where there is a default", record(("a", enum("A", default="A"))), record(("a", enum("A", "B", default="A"))), READS, READS, [{"a": "A"}], [{"a": "B"}]),
    Case("a symbol is removed", record(("a", enum("A", "B"))), record(("a", enum("A"))), SYMBOLS, READS, [], [{"a": "A"}]),
    Case("symbols change places", record(("a", enum("A", "B"))), record(("a", enum("B", "A"))), READS, READS, [{"a": "A"}], [{"a": "B"}]),
    Case("an enum is renamed", record(("a", enum("A"))), record(("a", enum("A", name="D"))), NAME, NAME),
    Case("an enum is renamed with an alias", record(("a", enum("A"))), record(("a", enum("A", name="D", aliases=["E"]))), READS, NAME, [{"a": "A"}]),
    Case("an enum becomes text", record(("a", enum("A"))), record(("a", TEXT)), MISMATCH, MISMATCH),
    Case("a fixed changes its size", record(("a", fixed(4))), record(("a", fixed(8))), SIZE, SIZE),
    Case("a fixed is renamed", record(("a", fixed(4))), record(("a", fixed(4, name="G"))), NAME, NAME),
    Case("a fixed becomes bytes", record(("a", fixed(4))), record(("a", "bytes")), MISMATCH, MISMATCH),
    Case("items become wider", record(("a", {"type": "array", "items": INT})), record(("a", {"type": "array", "items": LONG})), READS, MISMATCH, [{"a": [1, 2]}]),
    Case("items become text", record(("a", {"type": "array", "items": INT})), record(("a", {"type": "array", "items": TEXT})), MISMATCH, MISMATCH),
    Case("values become wider", record(("a", {"type": "map", "values": INT})), record(("a", {"type": "map", "values": "double"})), READS, MISMATCH, [{"a": {"k": 1}}]),
    Case("an array becomes a map", record(("a", {"type": "array", "items": INT})), record(("a", {"type": "map", "values": INT})), MISMATCH, MISMATCH),
    Case("a decimal changes its scale", record(("a", decimal(9, 2))), record(("a", decimal(9, 3))), LOGICAL, LOGICAL),
    Case("a decimal gains precision", record(("a", decimal(9, 2))), record(("a", decimal(12, 2))), LOGICAL, LOGICAL),
    Case("a decimal stays", record(("a", decimal(9, 2))), record(("a", decimal(9, 2)), given("b", INT, 0)), READS, READS, [{"a": Decimal("1.25")}], [{"a": Decimal("1.25"), "b": 1}]),
    Case("milliseconds become microseconds", record(("a", logical(LONG, "timestamp-millis"))), record(("a", logical(LONG, "timestamp-micros"))), LOGICAL, LOGICAL),
    Case("a long becomes a time", record(("a", LONG)), record(("a", logical(LONG, "timestamp-millis"))), READS, READS, ONE, ONE),
    Case("an int of a date becomes a time", record(("a", logical(INT, "date"))), record(("a", logical(LONG, "timestamp-millis"))), LOGICAL, MISMATCH),
    Case("text becomes a uuid", record(("a", TEXT)), record(("a", logical(TEXT, "uuid"))), READS, READS, [{"a": "7f8e2e2c-5e7c-4a53-9a57-6c2a2d0d1e0f"}], [{"a": "7f8e2e2c-5e7c-4a53-9a57-6c2a2d0d1e0f"}]),
    Case("a record within gains a field", record(("a", record(("x", INT), name="P"))), record(("a", record(("x", INT), ("y", INT), name="P"))), MISSING, READS, [], [{"a": {"x": 1, "y": 2}}]),
    Case("a record used twice by its name is widened", NAMED, record(("a", record(("x", LONG), name="P")), ("b", "P")), READS, MISMATCH, [{"a": {"x": 1}, "b": {"x": 2}}]),
    Case("a record that holds itself is widened", TREE, record(("v", LONG), ("next", ["null", "R"])), READS, MISMATCH, [{"v": 1, "next": {"v": 2, "next": None}}]),
    Case("a record that holds itself gains a field", TREE, record(("v", INT), ("next", ["null", "R"]), ("w", INT)), MISSING, READS, [], [{"v": 1, "next": None, "w": 3}]),
    Case("a record becomes a primitive", A, INT, MISMATCH, MISMATCH),
    Case("primitives by themselves", INT, LONG, READS, MISMATCH, [5]),
    Case("a union of everything reads any of it", INT, ["null", "boolean", LONG, TEXT, A], READS, MISMATCH, [5]),
    Case("an enum with a default of its own is added", A, record(("a", INT), ("e", enum("A", default="A"))), MISSING, READS, ONE, [{"a": 1, "e": "A"}]),
]
# fmt: on
