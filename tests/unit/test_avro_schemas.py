"""Which Avro schema follows from which class, and which classes have none."""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID, uuid4

import pytest
from fastavro import parse_schema
from pydantic import BaseModel, ConfigDict, Field, RootModel

from eventlib.errors import WiringError
from eventlib.model.event import Event
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_text


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = 1
    LARGE = 2


class Line(BaseModel):
    """One line."""

    sku: str = Field(description="What is ordered.")
    quantity: int = 1


@dataclass(frozen=True)
class Tree:
    left: "Tree | None" = None
    right: "Tree | None" = None


def schema_of(cls: type[Any]) -> Any:
    text = schema_text(record_of(cls))
    parse_schema(json.loads(text))
    return json.loads(text)


def field_of(annotation: Any, **default: Any) -> Any:
    cls = type("Holder", (BaseModel,), {"__annotations__": {"value": annotation}, **default})
    (found,) = schema_of(cls)["fields"]
    return found


LINE = {
    "type": "record",
    "name": "Line",
    "doc": "One line.",
    "fields": [
        {"name": "sku", "type": "string", "doc": "What is ordered."},
        {"name": "quantity", "type": "long", "default": 1},
    ],
}
RED_OR_BLUE = {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}


@pytest.mark.parametrize(
    ("annotation", "avro"),
    [
        (str, "string"),
        (int, "long"),
        (float, "double"),
        (bool, "boolean"),
        (bytes, "bytes"),
        (datetime, {"type": "long", "logicalType": "timestamp-micros"}),
        (date, {"type": "int", "logicalType": "date"}),
        (time, {"type": "long", "logicalType": "time-micros"}),
        (UUID, {"type": "string", "logicalType": "uuid"}),
        (Decimal, {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}),
        (
            Annotated[Decimal, Field(max_digits=9, decimal_places=2)],
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        ),
        (
            Annotated[Decimal, Field(max_digits=9)],
            {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 9},
        ),
        (
            Annotated[Decimal, Field(decimal_places=2)],
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
        ),
        (Colour, RED_OR_BLUE),
        (Size, {"type": "enum", "name": "Size", "symbols": ["SMALL", "LARGE"]}),
        (Literal["credit note", "quantity"], "string"),
        (Literal[1, 2], "long"),
        (list[int], {"type": "array", "items": "long"}),
        (tuple[int, ...], {"type": "array", "items": "long"}),
        (set[int], {"type": "array", "items": "long"}),
        (frozenset[int], {"type": "array", "items": "long"}),
        (dict[str, float], {"type": "map", "values": "double"}),
        (Line, LINE),
        (int | str, ["long", "string"]),
        (Line | Colour | None, ["null", LINE, RED_OR_BLUE]),
        (list[int | None], {"type": "array", "items": ["null", "long"]}),
        (Literal["a"] | str, "string"),
    ],
)
def test_a_type_has_its_avro_type(annotation: Any, avro: Any) -> None:
    found = field_of(annotation)
    assert found["type"] == avro


@pytest.mark.parametrize("annotation", [int | None, Optional[int], None | int])  # noqa: UP045  the old way is read too
def test_an_optional_is_null_first_and_null_by_default(annotation: Any) -> None:
    assert field_of(annotation) == {"name": "value", "type": ["null", "long"], "default": None}


@pytest.mark.parametrize(
    ("annotation", "value", "avro", "default"),
    [
        (int | None, 5, ["long", "null"], 5),
        (int | str, "a", ["string", "long"], "a"),
        (bytes, b"\xff", "bytes", "\u00ff"),
        (date, date(1970, 1, 2), {"type": "int", "logicalType": "date"}, 1),
        (datetime, datetime(1970, 1, 1, tzinfo=UTC), {"type": "long", "logicalType": "timestamp-micros"}, 0),
        (Colour, Colour.BLUE, RED_OR_BLUE, "blue"),
        (tuple[str, ...], ("a", "b"), {"type": "array", "items": "string"}, ["a", "b"]),
        (list[str], Field(default_factory=list), {"type": "array", "items": "string"}, []),
        (dict[str, int], {"a": 1}, {"type": "map", "values": "long"}, {"a": 1}),
        (Line, Line(sku="a"), LINE, {"sku": "a", "quantity": 1}),
    ],
)
def test_a_models_default_is_the_schemas(annotation: Any, value: Any, avro: Any, default: Any) -> None:
    assert field_of(annotation, value=value) == {"name": "value", "type": avro, "default": default}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(UUID, Field(default_factory=uuid4)), (float, float("nan")), (list[int | None], [1]), (int, "not a number")],
)
def test_a_default_that_a_schema_cannot_hold_is_left_to_the_class(annotation: Any, value: Any) -> None:
    assert "default" not in field_of(annotation, value=value)


def test_a_named_type_is_meant_by_name_from_its_second_use_on() -> None:
    @dataclass(frozen=True)
    class Order:
        first: Line
        rest: tuple[Line, ...] = ()
        by_sku: dict[str, Line] = field(default_factory=dict)

    assert [each["type"] for each in schema_of(Order)["fields"]] == [
        LINE,
        {"type": "array", "items": "Line"},
        {"type": "map", "values": "Line"},
    ]


def test_a_type_may_contain_itself() -> None:
    assert schema_of(Tree)["fields"][0] == {"name": "left", "type": ["null", "Tree"], "default": None}


def test_a_docstring_is_the_doc_and_a_made_up_signature_is_not() -> None:
    class Paid(Event, topic="t", key="id"):
        """The money
        is here."""

        id: str

    assert schema_of(Paid)["doc"] == "The money\nis here."
    assert "doc" not in schema_of(Tree)


def test_the_text_is_the_same_each_time() -> None:
    assert schema_text(record_of(Line)) == (
        '{"type":"record","name":"Line","doc":"One line.","fields":[{"name":"sku","type":"string",'
        '"doc":"What is ordered."},{"name":"quantity","type":"long","default":1}]}'
    )


class Spaced(StrEnum):
    CREDIT_NOTE = "credit note"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


def another_line() -> type[BaseModel]:
    return type("Line", (BaseModel,), {"__annotations__": {"id": str}})


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        (complex, r"Holder.value: complex has no Avro type; use str, int"),
        (Any, r"Holder.value: .*Any has no Avro type"),
        (list, r"Holder.value: list has no Avro type"),
        (dict[int, str], r"Holder.value: .* keys that are not str; write dict\[str, X\]"),
        (tuple[int, str], r"Holder.value: .* mixes positions; write tuple\[X, \.\.\.\], or make it a dataclass"),
        (str | UUID, r"Holder.value: two of the union's types are string in Avro"),
        (list[int] | set[int], r"Holder.value: two of the union's types are array in Avro"),
        (int | datetime, r"Holder.value: two of the union's types are long in Avro"),
        (Literal["a", 1], r"Holder.value: .* mixes types"),
        (Spaced, r"Holder.value: Spaced has the value 'credit note', which is not an Avro symbol"),
        (Line | another_line(), r"Holder.value: .*Line.* have one name in the schema"),
        (RootModel[int], r"RootModel.* is not an Avro name"),
        (Open, r"Open has extra='allow'"),
    ],
)
def test_a_type_without_an_avro_type_names_the_field_and_the_remedy(annotation: Any, sentence: str) -> None:
    with pytest.raises(WiringError, match=sentence):
        field_of(annotation)


def test_a_class_without_fields_of_its_own_has_no_schema() -> None:
    with pytest.raises(WiringError, match="only Pydantic models and dataclasses"):
        record_of(int)


def test_a_name_that_avro_does_not_allow_is_refused() -> None:
    class Größe(BaseModel):  # noqa: PLC2401  that is what is refused
        value: int

    with pytest.raises(WiringError, match="'Größe' is not an Avro name"):
        record_of(Größe)


def test_a_field_that_could_not_be_read_back_is_refused() -> None:
    @dataclass(frozen=True)
    class Counted:
        total: int = field(default=0, init=False)

    with pytest.raises(WiringError, match=r"Counted.total has init=False"):
        record_of(Counted)


def test_a_name_that_does_not_exist_is_refused() -> None:
    class Dangling(BaseModel):
        value: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  that is what is refused

    @dataclass(frozen=True)
    class State:
        value: "Nowhere | None" = None  # type: ignore[name-defined]  # noqa: F821  that is what is refused

    for cls in (Dangling, State):
        with pytest.raises(WiringError, match=r"Nowhere.*; declare what its annotations name at module level"):
            record_of(cls)
