"""What an older version of a class has written is read with today's class."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from eventlib.codec.registry import Schema
from eventlib.codec.schema_ids import Schemas
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Event

# Written once by the first version of these classes, and never again: it stands for the logs that are out there.
GOLDEN = Path(__file__).parent.parent / "golden" / "avro-first-version.json"


class Currency(StrEnum):
    GBP = "GBP"  # new, and in front
    EUR = "EUR"
    USD = "USD"


class Line(BaseModel):
    line_no: int
    sku: str
    quantity: int
    discount: Annotated[Decimal, Field(max_digits=6, decimal_places=3)] = Decimal("0.250")  # new, with a default
    note: str | None  # new, optional without a default
    shipped_on: date = date(2025, 1, 1)  # new; the schema's default is a number


class Card(BaseModel):
    reference: str


class Invoice(BaseModel):
    reference: str


class OrderPlaced(Event, topic="orders", key="order_id"):
    """A customer has placed an order; today's version."""

    # customer_email is gone, and the order of the fields is another
    reference: str | None  # optional now
    weight_kg: float  # was an int
    order_id: str
    placed_at: datetime
    currency: Currency
    total: Annotated[Decimal, Field(max_digits=14, decimal_places=4)]  # had two places
    lines: tuple[Line, ...]
    paid_with: Invoice | Card  # could be a card only
    channel: str = "shop"  # new
    tags: list[str] = Field(default_factory=list)  # new


@dataclass(frozen=True)
class Basket:
    first_line: Line | None = None
    skus: tuple[str, ...] = ()
    units: float = 0
    backup: Line | None = None


async def golden() -> tuple[FramedCodec, list[dict[str, str]]]:
    stored = json.loads(GOLDEN.read_text())
    log = MemoryLog()
    await Schemas(log).register((each["subject"], Schema(each["schema"])) for each in stored["schemas"])
    codec = FramedCodec(log)
    await codec.prepare([("orders", OrderPlaced), ("order.changelog", Basket)])
    return codec, stored["values"]


async def test_events_of_the_first_version_are_read_with_todays_class() -> None:
    codec, values = await golden()
    read = [codec.decode(OrderPlaced, bytes.fromhex(v["hex"])) for v in values if v["type"] == "OrderPlaced"]
    assert read == [
        OrderPlaced(
            order_id="1001",
            placed_at=datetime(2025, 3, 1, 9, 30, 15, 250, tzinfo=UTC),
            currency=Currency.USD,
            total=Decimal("1234.50"),
            weight_kg=12.0,
            lines=(
                Line(line_no=1, sku="85123A", quantity=6, note=None),
                Line(line_no=2, sku="71053", quantity=2, note=None),
            ),
            paid_with=Card(reference="c-77"),
            reference="r-1",
        ),
        OrderPlaced(
            order_id="1002",
            placed_at=datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
            currency=Currency.EUR,
            total=Decimal("-0.01"),
            weight_kg=-3.0,
            lines=(),
            paid_with=Card(reference=""),
            reference="",
        ),
    ]
    assert isinstance(read[0].weight_kg, float)


async def test_states_of_the_first_version_are_read_with_todays_class() -> None:
    codec, values = await golden()
    read = [codec.decode(Basket, bytes.fromhex(v["hex"])) for v in values if v["type"] == "Basket"]
    assert read == [
        Basket(units=3.0, skus=("a", "b"), first_line=Line(line_no=9, sku="z", quantity=1, note=None)),
        Basket(),
    ]


async def test_what_is_written_today_is_read_without_resolution() -> None:
    codec, values = await golden()
    old = codec.decode(OrderPlaced, bytes.fromhex(values[0]["hex"]))
    written = codec.encode(old)
    assert written[:5] != bytes.fromhex(values[0]["hex"])[:5]
    assert codec.decode(OrderPlaced, written) == old


async def test_every_truncation_of_an_old_event_is_refused() -> None:
    codec, values = await golden()
    for value in values[:2]:
        data = bytes.fromhex(value["hex"])
        for length in range(len(data)):
            with pytest.raises(ContractError, match=r"^OrderPlaced"):
                codec.decode(OrderPlaced, data[:length])


@given(st.lists(st.tuples(st.integers(5, 120), st.binary(min_size=1, max_size=8)), min_size=1, max_size=3))
async def test_mutated_old_events_are_refused_or_read(changes: list[tuple[int, bytes]]) -> None:
    codec, values = await golden()
    data = bytes.fromhex(values[0]["hex"])
    for at, put in changes:
        data = data[:at] + put + data[at + len(put) :]
    try:
        assert isinstance(codec.decode(OrderPlaced, data), OrderPlaced)
    except ContractError as error:
        assert str(error).startswith("OrderPlaced")  # noqa: PT017  either answer is right


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Event", "namespace": "com.example", "fields": list(fields)})


async def reading(schema: str, cls: type[Any], body: bytes) -> Any:
    log = MemoryLog()
    await Schemas(log).register([("t-Event", Schema(schema))])
    codec = FramedCodec(log)
    await codec.refresh()
    return codec.decode(cls, b"\x00\x00\x00\x00\x01" + body)


def event(**annotations: Any) -> type[BaseModel]:
    defaults = {name: value[1] for name, value in annotations.items() if isinstance(value, tuple)}
    kinds = {name: value[0] if isinstance(value, tuple) else value for name, value in annotations.items()}
    return type("Event", (BaseModel,), {"__annotations__": kinds, **defaults})


async def test_a_field_that_nobody_can_fill_in_is_named() -> None:
    with pytest.raises(ContractError, match=r"Event\.b is not in the schema that wrote the bytes; give it a default"):
        await reading(record({"name": "a", "type": "long"}), event(a=int, b=int), b"\x02")
    made_up = Field(default_factory=uuid4)  # another one at each reading would not be a replay
    with pytest.raises(ContractError, match=r"Event\.b is not in the schema"):
        await reading(record({"name": "a", "type": "long"}), event(a=int, b=(str, made_up)), b"\x02")


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize(
    ("written", "today", "body", "value"),
    [
        (MILLIS, datetime, b"\xd0\x0f", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (["null", MILLIS], datetime | None, b"\x02\xd0\x0f", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("int", float | None, b"\x02", 1.0),
        (["null", "long"], int, b"\x02\x02", 1),
        ("string", str | int | None, b"\x02a", "a"),
        ({"type": "string", "avro.java.string": "String"}, str, b"\x02a", "a"),
        ({"type": "enum", "name": "Currency", "symbols": ["USD", "EUR"]}, Currency | str, b"\x02", Currency.EUR),
        ("string", Currency | str, b"\x06EUR", "EUR"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            Decimal | int | None,
            b"\x02\x0f",
            Decimal("1.5"),
        ),
    ],
)
async def test_a_field_of_another_type_is_resolved(written: Any, today: Any, body: bytes, value: Any) -> None:
    read = await reading(record({"name": "a", "type": written}), event(a=today), body)
    assert read.a == value
    assert type(read.a) is type(value)


@pytest.mark.parametrize(
    ("written", "today", "body"),
    [
        ("string", int, b"\x021"),
        ("long", str, b"\x02"),
        ("long", datetime, b"\x02"),
        ("bytes", Decimal, b"\x02\x01"),
        (["null", "long"], int, b"\x00"),
        ({"type": "enum", "name": "Currency", "symbols": ["XXX"]}, Currency, b"\x00"),
        ({"type": "array", "items": "string"}, list[int], b"\x02\x021\x00"),
        ({"type": "map", "values": "long"}, list[int], b"\x00"),
    ],
)
async def test_a_field_that_cannot_be_resolved_is_refused(written: Any, today: Any, body: bytes) -> None:
    with pytest.raises(ContractError, match=r"^Event"):
        await reading(record({"name": "a", "type": written}), event(a=today), body)


def subjects(records: Iterable[Any]) -> list[str]:
    return [json.loads(each.key)["subject"] for each in records]


async def test_subjects_are_topic_and_name_and_a_second_start_only_reads() -> None:
    log = MemoryLog()
    for _ in range(2):
        codec = FramedCodec(log)
        await codec.prepare([("orders", OrderPlaced), ("order.changelog", Basket), ("copies", OrderPlaced)])
        assert codec.encode(Basket())[:5] == b"\x00\x00\x00\x00\x02"
    records = await log.read("_schemas", 0, 0, 100)
    assert subjects(records) == ["orders-OrderPlaced", "order.changelog-Basket", "copies-OrderPlaced"]
