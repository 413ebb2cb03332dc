"""Former names, unknown symbols and upcasters: what a contract may change, and what it must not."""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, WiringError
from eventlib.log.memory import MemoryLog
from eventlib.model.evolution import Aliases, unknown_is, upcasts, version_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json


def model(name: str = "Sold", **annotations: Any) -> type[BaseModel]:
    defaults = {key: value[1] for key, value in annotations.items() if isinstance(value, tuple)}
    kinds = {key: value[0] if isinstance(value, tuple) else value for key, value in annotations.items()}
    config = {"model_config": {"extra": "forbid"}}
    return type(name, (BaseModel,), {"__annotations__": kinds, "__module__": __name__, **defaults, **config})


def enum(name: str, **members: Any) -> Any:
    kind = StrEnum if all(isinstance(value, str) for value in members.values()) else Enum
    return kind(name, members)  # type: ignore[call-arg]  # made from its members, as they come


async def read(old: type[BaseModel], new: type[Any], **values: Any) -> Any:
    log = MemoryLog()
    writer, reader = FramedCodec(log), FramedCodec(log)
    await writer.prepare([("sales", old)])
    data = writer.encode(old(**values))
    await reader.refresh()
    return reader.decode(new, data)


async def test_a_field_is_read_under_each_of_its_former_names() -> None:
    today = model(units=Annotated[int, Aliases("quantity", "amount")])
    assert (await read(model(amount=int), today, amount=3)).units == 3
    assert (await read(model(quantity=int), today, quantity=4)).units == 4
    assert (await read(model(units=int), today, units=5)).units == 5


async def test_a_writer_that_has_both_names_means_the_new_one() -> None:
    today = model(units=Annotated[int, Aliases("quantity")])
    assert (await read(model(units=int, quantity=int), today, units=1, quantity=2)).units == 1
    assert (await read(model(quantity=int, units=int), today, units=1, quantity=2)).units == 1


async def test_a_former_name_stands_in_the_schema_and_beside_other_metadata() -> None:
    today = model(units=Annotated[int, Aliases("quantity"), Field(ge=0, description="how many")])
    (field,) = schema_json(record_of(today))["fields"]
    assert field == {"name": "units", "type": "long", "aliases": ["quantity"], "doc": "how many"}


@dataclass(frozen=True)
class Shelf:
    on_hand: Annotated[int, Aliases("units")] = 0


async def test_a_dataclass_has_former_names_too_also_inside_of_another() -> None:
    inner = model("Shelf", units=int)
    read_back = await read(model(shelf=inner), model(shelf=Shelf), shelf=inner(units=7))
    assert read_back.shelf == Shelf(on_hand=7)


async def test_what_is_no_name_is_refused_as_a_former_name() -> None:
    with pytest.raises(WiringError, match=r"Sold\.units: 'the units' is not an Avro name"):
        record_of(model(units=Annotated[int, Aliases("the units")]))


async def test_an_unknown_symbol_is_read_as_the_one_that_is_named_for_it() -> None:
    newer = enum("Channel", WEB="web", APP="app")
    older = unknown_is("OTHER")(enum("Channel", WEB="web", OTHER="other"))
    assert (await read(model(channel=newer), model(channel=older), channel="app")).channel == "other"
    assert (await read(model(channel=newer), model(channel=older), channel="web")).channel == "web"
    strict = enum("Channel", WEB="web")
    with pytest.raises(ContractError, match="app not found in reader symbol list"):
        await read(model(channel=newer), model(channel=strict), channel="app")


def test_an_unknown_symbol_has_to_be_one_of_the_enum() -> None:
    with pytest.raises(WiringError, match="Size has no 'HUGE'"):
        unknown_is("HUGE")(enum("Size", SMALL=1, LARGE=2))


async def test_upcasters_lead_from_each_version_to_the_next() -> None:
    today = model(cents=int, currency=str)

    @upcasts(today, version=1)
    def with_cents(fields: dict[str, Any]) -> dict[str, Any]:
        return {"cents": round(fields["euros"] * 100)}

    second = model(cents=int)
    upcasts(second, version=1)(with_cents)

    @upcasts(today, version=2)
    def with_currency(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "currency": "EUR"}

    assert version_of(today) == 3
    assert schema_json(record_of(today))["version"] == 3
    assert await read(model(euros=float), today, euros=1.5) == today(cents=150, currency="EUR")
    assert await read(second, today, cents=7) == today(cents=7, currency="EUR")
    assert await read(today, today, cents=8, currency="USD") == today(cents=8, currency="USD")


async def test_an_upcaster_is_given_plain_values_and_may_leave_members_as_symbols() -> None:
    size = enum("Size", SMALL=1, LARGE=2)
    line = model("Line", sku=str, size=size | None)
    today = model(lines=list[line], sizes=dict[str, size])  # type: ignore[valid-type]  # made here
    seen = list[dict[str, Any]]()

    @upcasts(today, version=1)
    def wrapped(fields: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(fields))
        return {"lines": [{"sku": "a", "size": fields["size"]}, {"sku": "b", "size": None}], "sizes": {"x": "LARGE"}}

    got = await read(model(size=size), today, size=size.SMALL)
    assert seen == [{"size": "SMALL"}]
    assert got == today(lines=[line(sku="a", size=size.SMALL), line(sku="b", size=None)], sizes={"x": size.LARGE})


@pytest.mark.parametrize(
    ("upcaster", "reason"),
    [
        (lambda fields: fields["nothing"], "the upcaster for version 1 raised KeyError: 'nothing'"),
        (lambda _: [], r"the upcaster for version 1 returned \[\], no dict"),
        (lambda fields: fields, "upcast from version 1: .*cents: Field required"),
    ],
)
async def test_an_upcaster_that_fails_is_named(upcaster: Any, reason: str) -> None:
    today = model(cents=int)
    upcasts(today, version=1)(upcaster)
    with pytest.raises(ContractError, match=f"^Sold.*{reason}"):
        await read(model(euros=float), today, euros=1.0)


async def test_bytes_of_an_earlier_version_that_are_damaged_are_refused() -> None:
    old, today = model(called=str), model(title=str)
    upcasts(today, version=1)(lambda fields: {"title": fields["called"]})
    log = MemoryLog()
    codec = FramedCodec(log)
    await codec.prepare([("sales", old)])
    data = codec.encode(old(called="a book"))
    for length in range(5, len(data)):
        with pytest.raises(ContractError, match=r"^Sold: the bytes do not fit the schema"):
            codec.decode(today, data[:length])
    with pytest.raises(ContractError):
        codec.decode(today, data + b"\x00")


def test_upcasters_are_whole_and_each_version_has_one() -> None:
    gap = model(a=int)
    upcasts(gap, version=2)(lambda fields: fields)
    with pytest.raises(WiringError, match="Sold has an upcaster for version 2, but none for 1"):
        record_of(gap)
    with pytest.raises(WiringError, match="Sold has two upcasters for version 2"):
        upcasts(gap, version=2)(lambda fields: fields)
    with pytest.raises(WiringError, match="version=0; the first version of a contract is 1"):
        upcasts(gap, version=0)


async def test_newer_code_has_written_what_older_code_cannot_read() -> None:
    newer = model(a=int)
    upcasts(newer, version=1)(lambda fields: fields)
    with pytest.raises(
        ContractError, match="version 2 of its contract has written this, and this code knows version 1"
    ):
        await read(newer, model(a=int), a=1)
