"""Whatever the bytes are, decode answers with a value, a ContractError or an UnknownSchema; soon, and in little memory."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from eventlib.codec.avro.plain import plain_reader
from eventlib.codec.base import UnknownSchema
from eventlib.codec.registry import Schema
from eventlib.codec.schema_ids import Schemas
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Event


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Empty(BaseModel):
    pass


class Line(BaseModel):
    sku: str
    quantity: int


@dataclass(frozen=True)
class Chain:
    next: "Chain | None" = None


class Order(Event, topic="orders", key="order_id"):
    order_id: str
    at: datetime
    day: date
    amount: Decimal
    ident: UUID
    colour: Colour
    lines: list[Line]
    prices: dict[str, float]
    either: Line | Colour | int | None
    raw: bytes
    note: str | None = None


class Nothings(Event, topic="nothings", key=None):
    nothings: list[Empty]
    nested: tuple[tuple[None, ...], ...] = ()


class Picky(Event, topic="picky", key="order_id"):
    order_id: str

    @field_validator("order_id")
    @classmethod
    def not_reserved(cls, value: str) -> str:
        if value == "reserved":
            raise ValueError("is a reserved word")
        return value


ORDER = Order(
    order_id="o-1",
    at=datetime.fromisoformat("2026-01-01T12:00:00Z"),
    day=date(2026, 1, 1),
    amount=Decimal("12.5"),
    ident=UUID(int=5),
    colour=Colour.BLUE,
    lines=[Line(sku="a", quantity=1), Line(sku="b", quantity=2)],
    prices={"a": 1.5},
    either=Line(sku="c", quantity=3),
    raw=b"\x00\x01",
    note="hello",
)
CLASSES: tuple[type[Any], ...] = (Order, Nothings, Chain, Picky)
OLD_ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"gone","type":{"type":"array","items":"null"}},'
    '{"name":"lost","type":"string"},{"name":"order_id","type":"string"}]}'
)
OLD_CHAIN = (
    '{"type":"record","name":"Chain","fields":[{"name":"next","type":["null","Chain"]},{"name":"x","type":"bytes"}]}'
)


async def prepared() -> FramedCodec:
    log = MemoryLog()
    codec = FramedCodec(log)
    await codec.prepare(("topic", cls) for cls in CLASSES)
    await Schemas(log).register([("topic-Order", Schema(OLD_ORDER)), ("topic-Chain", Schema(OLD_CHAIN))])
    await codec.refresh()
    return codec


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def framed(codec: FramedCodec, cls: type[Any], body: bytes) -> bytes:
    empty = {Order: ORDER, Nothings: Nothings(nothings=[]), Chain: Chain(), Picky: Picky(order_id="a")}[cls]
    return codec.encode(empty)[:5] + body


@given(st.binary(max_size=60), st.integers(0, 7), st.sampled_from(CLASSES))
@example(b"", 0, Order)
async def test_random_bytes_behind_any_id(body: bytes, schema_id: int, expected: type[Any]) -> None:
    codec = await prepared()
    with suppress(ContractError, UnknownSchema):
        assert isinstance(codec.decode(expected, bytes([0, 0, 0, 0, schema_id]) + body), expected)


@given(st.binary(max_size=20), st.sampled_from(CLASSES))
async def test_random_bytes(data: bytes, expected: type[Any]) -> None:
    codec = await prepared()
    with suppress(ContractError, UnknownSchema):
        codec.decode(expected, data)


@given(st.lists(st.tuples(st.integers(5, 200), st.binary(min_size=1, max_size=10)), min_size=1, max_size=4))
async def test_mutated_bytes(changes: list[tuple[int, bytes]]) -> None:
    codec = await prepared()
    data = codec.encode(ORDER)
    for at, put in changes:
        data = data[:at] + put + data[at + len(put) :]
    with suppress(ContractError):
        assert isinstance(codec.decode(Order, data), Order)


async def test_every_truncation_is_refused() -> None:
    codec = await prepared()
    data = codec.encode(ORDER)
    for length in range(len(data)):
        with pytest.raises(ContractError, match=r"^Order"):
            codec.decode(Order, data[:length])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "0 bytes are too few for a magic byte and a schema id"),
        (b"\x00\x00\x00\x01", "4 bytes are too few"),
        (b'{"order_id": 1}', "the first byte is 123, not the magic byte 0"),
    ],
)
async def test_bytes_that_are_not_framed_are_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        (await prepared()).decode(Order, data)


async def test_an_unknown_id_is_named() -> None:
    with pytest.raises(UnknownSchema, match="schema id 4660 is not known here"):
        (await prepared()).decode(Order, b"\x00\x00\x00\x12\x34abc")


async def test_bytes_left_over_are_refused() -> None:
    codec = await prepared()
    with pytest.raises(ContractError, match="Order: the bytes do not fit the schema: 2 bytes are left over"):
        codec.decode(Order, codec.encode(ORDER) + b"xx")


async def test_a_value_that_the_model_refuses_names_its_field() -> None:
    codec = await prepared()
    with pytest.raises(ContractError, match=r"Picky: field order_id: .*is a reserved word"):
        codec.decode(Picky, framed(codec, Picky, varint(8) + b"reserved"))


async def test_another_classs_schema_is_refused() -> None:
    codec = await prepared()
    with pytest.raises(ContractError, match=r"^Picky"):
        codec.decode(Picky, codec.encode(ORDER))


HUGE = [2**30, 2**40, 2**62, -(2**62), -(2**63)]
PREFIX = varint(3) + b"o-1" + varint(0) + varint(0)


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        *((Order, varint(size) + b"abc") for size in HUGE),  # a string that claims to be long
        *((Order, PREFIX + varint(size) + b"abc") for size in HUGE),  # a decimal that does
        (Order, PREFIX + varint(900_000) + b"\x7f" * 900_000),  # a decimal that is
        (Order, PREFIX + varint(0) + varint(3) + b"abc"),  # no UUID
        (Order, varint(3) + b"o-1" + varint(2**62)),  # a time far out
        (Order, varint(3) + b"o-1" + b"\xff" * 900_000),  # a number without end
        *((Nothings, varint(count) + varint(0) * 2) for count in HUGE),  # items that take no bytes
        (Nothings, varint(0) + varint(2_000) + (varint(90_000) + varint(0)) * 2_000 + varint(0)),
        (Chain, varint(1) * 900_000),  # as deep as it is long
        (Chain, varint(1) * 900_000 + varint(0)),
        (Chain, varint(1) * 250 + varint(0)),
    ],
)
async def test_claims_without_bytes_are_refused_at_once(expected: type[Any], body: bytes) -> None:
    codec = await prepared()
    began = time.perf_counter()
    with pytest.raises(ContractError, match=f"^{expected.__name__}"):
        codec.decode(expected, framed(codec, expected, body))
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        *((OLD_CHAIN, varint(1) * count) for count in (201, 900_000)),
        *((OLD_CHAIN, varint(0) + varint(size)) for size in HUGE),  # what is skipped is looked at too
        *((OLD_CHAIN, varint(0) + varint(3) + b"ab") for _ in "x"),
    ],
)
async def test_what_a_resolution_skips_is_checked_too(schema: str, body: bytes) -> None:
    log = MemoryLog()
    schemas = Schemas(log)
    await schemas.register([("t-Chain", Schema(schema))])
    codec = FramedCodec(log)
    await codec.refresh()
    with pytest.raises(ContractError, match=r"^Chain"):
        codec.decode(Chain, b"\x00\x00\x00\x00\x01" + body)


@pytest.mark.parametrize("schema", ["{}", "[]", '"nowhere"', '{"type":"record","name":"Picky"}', "5", '"string"'])
async def test_a_schema_on_the_log_that_is_none_is_refused(schema: str) -> None:
    log = MemoryLog()
    await Schemas(log).register([("t-Picky", Schema(schema))])
    codec = FramedCodec(log)
    await codec.refresh()
    with pytest.raises(ContractError, match=r"^Picky"):
        codec.decode(Picky, b"\x00\x00\x00\x00\x01\x02a")


def doubling(levels: int, innermost: str = "null") -> dict[str, Any]:
    """Return a record of two records of two records, and so on, each of which takes as many bytes as the innermost field."""
    found: dict[str, Any] = {"type": "record", "name": "L0", "fields": [{"name": "x", "type": innermost}]}
    for level in range(1, levels + 1):
        fields = [{"name": "a", "type": found}, {"name": "b", "type": f"L{level - 1}"}]
        found = {"type": "record", "name": f"L{level}", "fields": fields}
    return found


FORMS: dict[str, tuple[Any, bytes]] = {
    "field": (lambda inner: inner, b""),
    "union": (lambda inner: ["null", inner], varint(1)),
    "array": (lambda inner: {"type": "array", "items": inner}, varint(1) + varint(0)),
    "array in a block": (lambda inner: {"type": "array", "items": inner}, varint(-1) + varint(0) + varint(0)),
    "map": (lambda inner: {"type": "map", "values": inner}, varint(1) + varint(1) + b"k" + varint(0)),
}


@pytest.mark.parametrize("levels", [18, 80])
@pytest.mark.parametrize("form", FORMS)
async def test_records_that_take_no_bytes_may_not_double_without_end(form: str, levels: int) -> None:
    wrapped, body = FORMS[form]
    fields = [{"name": "more", "type": wrapped(doubling(levels))}, {"name": "order_id", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "Picky", "fields": fields})
    log = MemoryLog()
    schemas = Schemas(log)
    await schemas.register([("t-Picky", Schema(schema))])
    codec = FramedCodec(log)
    await codec.refresh()
    with pytest.raises(ContractError, match="more than 100000 values that take no bytes"):
        codec.decode(Picky, b"\x00\x00\x00\x00\x01" + body + varint(1) + b"a")
    with pytest.raises(ContractError, match="more than 100000 values that take no bytes"):
        plain_reader(schema)(body + varint(1) + b"a")


def test_each_byte_pays_for_a_value_that_takes_none() -> None:
    item = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "null"}, {"name": "b", "type": "boolean"}]}
    read = plain_reader(
        {"type": "record", "name": "R", "fields": [{"name": "all", "type": {"type": "array", "items": item}}]}
    )
    assert len(read(varint(300_000) + b"\x01" * 300_000 + varint(0))["all"]) == 300_000


@pytest.mark.parametrize("innermost", ["null", "boolean"])
def test_a_schema_that_doubles_is_read_once_for_each_of_its_names(innermost: str) -> None:
    fields = [{"name": "order_id", "type": "string"}, {"name": "more", "type": ["null", doubling(80, innermost)]}]
    read = plain_reader({"type": "record", "name": "R", "fields": fields})
    assert read(varint(1) + b"a" + varint(0)) == {"order_id": "a", "more": None}
