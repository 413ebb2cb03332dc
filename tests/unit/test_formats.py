"""Each format carries every kind of field, reads older versions, and refuses what does not fit with the field's name."""

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from eventlib.codec.base import UnknownSchema
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError, WiringError
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Event
from eventlib.model.evolution import Aliases, unknown_is, upcasts
from eventlib.model.topic import FORMATS, Topic


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Weekday(Enum):
    MONDAY = 1
    SUNDAY = 7


class Box(BaseModel):
    size: Size
    litres: float


class Tube(BaseModel):
    metres: int


INSIDE: dict[str, Any] = {"avro": Box | Tube | None, "protobuf": Box | Tube | None, "json": Box | str | None}


def parcel(form: str) -> Any:
    class Parcel(Event, topic=Topic("parcels", format=form), key="parcel_id"):
        """A parcel of every kind."""

        parcel_id: str
        count: int
        weight: Annotated[Decimal, Field(max_digits=12, decimal_places=3)]
        litres: float
        fragile: bool
        seal: bytes
        by: UUID
        on: date
        at: time
        moment: datetime
        mode: Literal["air", "sea"]
        days: tuple[Weekday, ...]
        boxes: list[Box]
        marks: dict[str, int]
        tubes: dict[str, Tube]
        words: frozenset[str]
        inside: INSIDE[form]  # type: ignore[valid-type]  # another one in each format
        note: str | None
        later: datetime | None = None
        colour: str = "brown"
        tags: list[str] = Field(default_factory=list)

    return Parcel


PARCELS = {form: parcel(form) for form in FORMATS}


def made(form: str, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "parcel_id": "p-1",
        "count": -(2**62),
        "weight": Decimal("12.345"),
        "litres": 0.1,
        "fragile": False,
        "seal": b"\x00\xff\x80",
        "by": UUID(int=7),
        "on": date(2026, 2, 28),
        "at": time(23, 59, 1, 250),
        "moment": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        "mode": "air",
        "days": (Weekday.SUNDAY, Weekday.MONDAY),
        "boxes": [Box(size=Size.LARGE, litres=1.5), Box(size=Size.SMALL, litres=0)],
        "marks": {"a": 1, "ü": 0},
        "tubes": {"t": Tube(metres=0)},
        "words": frozenset({"x", "y", "z"}),
        "inside": Box(size=Size.SMALL, litres=2),
        "note": None,
    }
    return PARCELS[form](**{**fields, **changes})


async def prepared(*types: type[Event], log: MemoryLog | None = None) -> FramedCodec:
    codec = FramedCodec(log or MemoryLog())
    await codec.prepare([("parcels", each) for each in types])
    return codec


@pytest.mark.parametrize("form", FORMATS)
async def test_every_kind_of_field_goes_there_and_back(form: str) -> None:
    log = MemoryLog()
    codec = await prepared(PARCELS[form], log=log)
    other = Tube(metres=3) if form != "json" else "nothing"
    for event in (
        made(form),
        made(form, note="", later=datetime(2026, 1, 1, tzinfo=UTC), colour="", tags=["b", "a"], inside=None),
        made(form, inside=other, days=(), boxes=[], marks={}, tubes={}, words=frozenset(), parcel_id="ü", litres=-0.0),
    ):
        data = codec.encode(event)
        assert codec.decode(PARCELS[form], data) == event
        assert codec.encode(event) == data
    reader = FramedCodec(log)  # the same log, by another process
    await reader.refresh()
    assert reader.decode(PARCELS[form], codec.encode(made(form))) == made(form)


@pytest.mark.parametrize("form", FORMATS)
@given(
    count=st.integers(-(2**63), 2**63 - 1),
    litres=st.floats(allow_nan=False, allow_infinity=False),
    note=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    seal=st.binary(max_size=50),
    moment=st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  a bound
    marks=st.dictionaries(st.text("abcü", max_size=3), st.integers(-5, 5), max_size=3),
)
async def test_any_value_goes_there_and_back(form: str, **changes: Any) -> None:
    codec = await codec_of(form)
    event = made(form, **changes)
    assert codec.decode(PARCELS[form], codec.encode(event)) == event


CODECS = dict[str, FramedCodec]()


async def codec_of(form: str) -> FramedCodec:
    if form not in CODECS:
        CODECS[form] = await prepared(PARCELS[form])
    return CODECS[form]


@pytest.mark.parametrize("form", FORMATS)
@given(at=st.integers(5, 400), put=st.binary(min_size=1, max_size=6))
async def test_damaged_bytes_are_read_or_refused_and_nothing_else(form: str, at: int, put: bytes) -> None:
    codec = await codec_of(form)
    data = codec.encode(made(form))
    for damaged in (data[:at], data[:at] + put + data[at + len(put) :]):
        try:
            assert isinstance(codec.decode(PARCELS[form], damaged), PARCELS[form])
        except (ContractError, UnknownSchema) as error:
            assert "Parcel" in str(error)  # noqa: PT017  either answer is right


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", 2**64),
        ("weight", Decimal("1.2345")),
        ("weight", Decimal("NaN")),
        ("moment", datetime(2026, 1, 1)),  # noqa: DTZ001  that is what is refused
        ("at", time(1, tzinfo=UTC)),
        ("boxes", [Tube(metres=1)]),
        ("parcel_id", "\ud800"),
        ("count", "7"),
    ],
)
async def test_what_does_not_fit_is_refused_with_its_field(form: str, field: str, value: Any) -> None:
    if form == "json" and value == 2**64:
        pytest.skip("JSON's integers have no end")
    codec = await codec_of(form)
    event = made(form).model_copy(update={field: value})
    with pytest.raises(ContractError, match=f"Parcel.*{field}"):
        codec.encode(event)


def versions(form: str) -> tuple[Any, Any, Any]:
    topic = Topic("sales", format=form)

    @unknown_is("OTHER")
    class Channel(StrEnum):
        WEB = "web"
        OTHER = "other"

    def first() -> type[Event]:
        class Sold(Event, topic=topic, key="sale"):
            sale: str
            quantity: int
            gone: str

        return Sold

    def second() -> type[Event]:
        class Sold(Event, topic=topic, key="sale"):
            sale: str
            units: Annotated[int, Aliases("quantity")]
            channel: Channel = Channel.WEB
            note: str | None = None

        return Sold

    class Sold(Event, topic=topic, key="sale"):
        sale: str
        dozens: int

    @upcasts(Sold, version=1)
    def in_dozens(fields: dict[str, Any]) -> dict[str, Any]:
        return {"sale": fields["sale"], "dozens": fields["quantity"] // 12}

    return first(), second(), Sold


@pytest.mark.parametrize("form", FORMATS)
async def test_older_versions_are_read_by_names_defaults_and_upcasters(form: str) -> None:
    log = MemoryLog()
    old, new, newest = versions(form)
    writer = await prepared(old, log=log)
    data = writer.encode(old(sale="1", quantity=24, gone="x"))
    reader = FramedCodec(log)
    await reader.refresh()
    assert reader.decode(new, data) == new(sale="1", units=24)
    assert reader.decode(newest, data) == newest(sale="1", dozens=2)
    await reader.prepare([("sales", newest)])
    assert reader.decode(newest, reader.encode(newest(sale="2", dozens=0))) == newest(sale="2", dozens=0)
    await writer.refresh()
    with pytest.raises(ContractError, match="version 2 of its contract has written this"):
        writer.decode(old, reader.encode(newest(sale="2", dozens=1)))


@pytest.mark.parametrize(
    ("form", "kind", "reason"),
    [
        ("json", Box | Tube, r"ExternalStates\.what: JSON does not say which of the union's types a value is"),
        ("json", int | float, r"ExternalStates\.what: JSON does not say"),
        ("protobuf", list[str] | None, r"ExternalStates\.what: Protobuf has no list or dict that may be None"),
        ("protobuf", list[list[str]], r"ExternalStates\.what: Protobuf has no list, dict or union inside of another"),
    ],
)
async def test_what_a_format_cannot_say_is_refused_before_anything_is_written(
    form: str, kind: Any, reason: str
) -> None:
    annotations = {"who": str, "what": kind}
    told = type(
        "ExternalStates",
        (Event,),
        {"__annotations__": annotations, "__module__": __name__},
        topic=Topic("told", format=form),
        key="who",
    )
    log = MemoryLog()
    with pytest.raises(WiringError, match=reason):
        await prepared(told, log=log)
    assert await log.topics() == {}


def test_a_topic_has_a_format_that_is_known() -> None:
    with pytest.raises(WiringError, match="unknown format 'thrift'; known are avro, json, protobuf"):
        Topic("x", format="thrift")
    assert replace(Topic("x", format="json"), partitions=3).format == "json"
