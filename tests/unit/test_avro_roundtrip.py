"""Whatever a supported class holds comes back equal, of the same types, and validated."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from io import BytesIO
from typing import Any, Literal
from uuid import UUID

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, create_model

from eventlib.codec.avro.write import writer_of
from eventlib.model.event import EPOCH, Event
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_json, without_logical_types
from tests.apps.fields import (
    KINDS,
    Colour,
    Gift,
    Kinds,
    Line,
    Money,
    Slotted,
    Step,
    codec_for,
    event_of,
    every,
    shown,
    values_of,
)


class Size(Enum):
    SMALL = 1
    LARGE = 2


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
longs = st.integers(-(2**63), 2**63 - 1)
money = st.decimals(-(10**7), 10**7, places=4)
instants = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    max_value=datetime(9998, 12, 31),  # noqa: DTZ001  hypothesis adds the zone
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
).filter(lambda at: abs(at - EPOCH) > timedelta(hours=1))
"""fastavro is given numbers, and that of a time near the epoch fits the branch of dates, which is the first."""

floats = st.floats(allow_nan=False)
tags = st.lists(text, max_size=2)
lines = st.builds(Line, sku=text, price=money, tags=tags)
gifts = st.builds(Gift, sku=text, price=money, tags=tags, note=text)
steps = st.recursive(
    st.builds(Step, at=st.none() | instants, weight=floats),
    lambda inner: st.builds(Step, weight=floats, below=st.lists(inner, max_size=2).map(tuple)),
    max_leaves=6,
)
WIDE: Kinds = {
    **KINDS,
    "text": (str, text),
    "number": (int, longs),
    "ratio": (float, floats),
    "raw": (bytes, st.binary(max_size=20)),
    "at": (datetime, instants),
    "day": (date, st.dates()),
    "clock": (time, st.times()),
    "money": (Money, money),
    "loose": (Decimal, st.decimals(-(10**15), 10**15, places=9)),
    "ident": (UUID, st.uuids()),
    "size": (Size, st.sampled_from(Size)),
    "choice": (Literal["a", "credit note"], st.sampled_from(["a", "credit note"])),
    "line": (Line, lines),
    "step": (Step, steps),
    "slotted": (Slotted, st.builds(Slotted, name=text, seen=st.sets(text, max_size=3))),
    "names": (dict[str, str], st.dictionaries(text | st.just("-type"), text, max_size=3)),
    "mixed": (int | str | float | bool | None, st.none() | longs | text | floats | st.booleans()),
    "named": (Line | Gift | Colour | str, lines | gifts | st.sampled_from(Colour) | text),
    "moments": (date | datetime, st.dates() | instants),
}
EVERY_WIDE = every(WIDE)
Everything = event_of("Everything", EVERY_WIDE)
everything = values_of(EVERY_WIDE)


@given(everything)
async def test_every_supported_type_comes_back_equal_and_of_its_own_type(fields: dict[str, Any]) -> None:
    event = Everything(key="k", **fields)
    codec = await codec_for(Everything)
    data = codec.encode(event)
    assert codec.gives(event, data), "bytes are known for a value's own without being read"
    again = codec.decode(Everything, data)
    assert again == event
    assert shown(again) == shown(event)


async def test_bytes_of_another_value_or_schema_or_of_nothing_are_not_a_values_own() -> None:
    class Paid(Event, topic="t", key="id"):
        id: str
        cents: int

    before = Paid
    codec = await codec_for(Paid)
    written = codec.encode(Paid(id="1", cents=2))

    class Paid(Event, topic="t", key="id"):  # type: ignore[no-redef]  # the same event, one release later
        id: str
        cents: int
        currency: str = "GBP"

    await codec.prepare([("t", Paid)])
    assert not codec.gives(before(id="1", cents=3), written)
    assert not codec.gives(Paid(id="1", cents=2), written)
    for cut in range(len(written)):
        assert not codec.gives(before(id="1", cents=2), written[:cut])
    assert not codec.gives(before(id="1", cents=2), b"\x00\xff\xff\xff\xff" + written[5:])
    assert codec.gives(before(id="1", cents=2), written)


@given(steps)
async def test_frozen_states_stay_frozen_equal_and_hashable(step: Step) -> None:
    codec = await codec_for(Step)
    again = codec.decode(Step, codec.encode(step))
    assert again == step
    assert hash(again) == hash(step)


async def test_instants_come_back_in_utc() -> None:
    class Clocked(Event, topic="t", key="id"):
        id: str
        at: datetime

    codec = await codec_for(Clocked)
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))
    again = codec.decode(Clocked, codec.encode(Clocked(id="1", at=noon)))
    assert again.at == noon
    assert again.at.utcoffset() == timedelta(0)


async def test_infinities_and_not_a_number_are_floats_too() -> None:
    @dataclass(frozen=True)
    class Reading:
        value: float = math.nan

    codec = await codec_for(Reading)
    assert math.isnan(codec.decode(Reading, codec.encode(Reading())).value)
    assert codec.decode(Reading, codec.encode(Reading(-math.inf))).value == -math.inf


async def test_aliases_and_strict_models_are_for_json_and_not_for_the_wire() -> None:
    class Strict(Event, topic="t", key="id"):
        model_config = ConfigDict(strict=True)

        id: str = Field(alias="theId")
        kinds: tuple[Colour, ...] = ()

    codec = await codec_for(Strict)
    event = Strict(theId="1", kinds=(Colour.RED,))
    assert codec.decode(Strict, codec.encode(event)) == event


async def test_the_same_set_makes_the_same_bytes() -> None:
    codec = await codec_for(Slotted)
    names = [f"name-{i}" for i in range(50)]
    assert codec.encode(Slotted(seen={*names})) == codec.encode(Slotted(seen={*reversed(names)}))


async def test_a_field_may_have_a_name_that_only_python_reserves() -> None:
    parcel = create_model("Parcel", **{"from": (str, ...), "class": (int, 0)})  # type: ignore[call-overload]  # names as keys
    codec = await codec_for(parcel)
    sent = parcel(**{"from": "Oslo", "class": 2})
    assert codec.decode(parcel, codec.encode(sent)) == sent


@given(everything)
async def test_what_is_written_is_what_fastavro_would_write(fields: dict[str, Any]) -> None:
    record = record_of(Everything)
    raw = writer_of(record, b"")(Everything(key="k", **fields))
    plain = parse_schema(without_logical_types(schema_json(record)))
    read = schemaless_reader(BytesIO(raw), plain, None, return_named_type=True)
    again = BytesIO()
    schemaless_writer(again, plain, read)
    assert again.getvalue() == raw
