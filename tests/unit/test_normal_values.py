"""A value in an event or a state is what its bytes give back: compared by type and by how it is shown, not by `==`."""

import copy
import json
import pickle
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventlib import Decider, Event, Topic
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Meta
from tests.apps.fields import (
    BERLIN,
    EVERY,
    Blob,
    Colour,
    Everything,
    Gift,
    Line,
    Money,
    OwnLine,
    shown,
    state_of,
    values_of,
)

META = Meta("1")
STATE = state_of("State", EVERY)


class Changed(Event, topic="changes", key="key"):
    key: str


CODEC = FramedCodec(MemoryLog())


async def again(value: Any) -> Any:
    await CODEC.prepare([("topic", type(value))])
    return CODEC.decode(type(value), CODEC.encode(value))


@settings(max_examples=30)
@given(values_of(EVERY))
async def test_an_event_has_the_values_that_its_bytes_give_back(values: dict[str, Any]) -> None:
    event = Everything(key="k", **values)
    copied = event.model_copy(update=values)
    made = Everything.model_construct(key="k", **values)
    for each in (event, copied, made, copy.deepcopy(event), pickle.loads(pickle.dumps(event))):  # noqa: S301  its own bytes
        assert shown(each) == shown(await again(each)) == shown(event)


@settings(max_examples=30)
@given(values_of(EVERY))
async def test_a_state_has_the_values_that_the_changelog_gives_back(values: dict[str, Any]) -> None:
    decider = Decider("d", state=STATE, key="key")

    @decider.evolve
    def evolve(state: Any, _: Event) -> Any:
        return replace(state, **values)

    state: Any = decider.evolved(decider.initial, Changed(key="1"), META)
    assert shown(state) == shown(await again(state))
    assert shown(decider.evolved(state, Changed(key="1"), META)) == shown(state)
    assert shown(decider.initial) == shown(await again(decider.initial))


class Parcel(Event, topic="parcels", key="key"):
    key: str
    line: Line = Line(sku="a")
    tags: list[str] = Field(default=[])
    marks: set[str] = Field(default=set())
    counts: dict[str, int] = Field(default={})
    ratio: float = 0


@dataclass(frozen=True)
class Basket:
    lines: tuple[Line, ...] = ()
    ratio: float = 0
    tags: list[str] = field(default_factory=list)


def evolving_to(**changes: Any) -> Decider[Basket]:
    decider = Decider("basket", state=Basket, key="key")

    @decider.evolve
    def evolve(basket: Basket, _: Event) -> Basket:
        return replace(basket, **changes)

    return decider


def test_a_part_with_more_fields_than_the_declared_class_is_refused_with_the_fields_name() -> None:
    remedy = r"a Gift where a Line is declared, and its bytes would lose note: declare `Line \| Gift`"
    with pytest.raises(ValidationError, match=rf"Parcel\.line: {remedy}"):
        Parcel(key="1", line=Gift(sku="a", note="for you"))
    decider = evolving_to(lines=(Line(sku="a"), Gift(sku="b", note="for you")))
    with pytest.raises(ContractError, match=rf"Basket\.lines: {remedy}"):
        decider.evolved(decider.initial, Changed(key="1"), META)


def test_an_int_that_no_float_holds_is_refused_with_the_fields_name() -> None:
    decider = evolving_to(ratio=2**53 + 1)
    with pytest.raises(ContractError, match=r"Basket\.ratio: 9007199254740993 is not exactly a float"):
        decider.evolved(decider.initial, Changed(key="1"), META)


def test_a_time_that_utc_does_not_have_is_refused_with_the_fields_name() -> None:
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))
    with pytest.raises(ValidationError, match=r"Timed\.at: .* is outside the years that UTC has here"):
        Timed(key="1", at=last)


class Timed(Event, topic="timed", key="key"):
    key: str
    at: datetime


@pytest.mark.parametrize(
    "change",
    [
        lambda parcel: parcel.tags.append("x"),
        lambda parcel: parcel.tags.sort(),
        lambda parcel: parcel.tags.__setitem__(slice(None), ["x"]),
        lambda parcel: parcel.marks.add("x"),
        lambda parcel: parcel.marks.difference_update({"a"}),
        lambda parcel: parcel.counts.update(b=2),
        lambda parcel: parcel.counts.__setitem__("b", 2),
        lambda parcel: parcel.line.tags.clear(),
    ],
)
def test_containers_cannot_be_changed_in_place(change: Any) -> None:
    parcel = Parcel(key="1", tags=["a"], marks={"a"}, counts={"a": 1}, line=Line(sku="a", tags=["t"]))
    before = repr(parcel)
    with pytest.raises(TypeError, match="cannot be changed in place: make a new one"):
        change(parcel)
    assert repr(parcel) == before


def test_whoever_made_an_event_cannot_change_it_by_the_containers_that_he_gave() -> None:
    tags, line = ["a"], Line(sku="a", tags=["t"])
    parcel = Parcel(key="1", tags=tags, line=line)
    tags.append("b")
    line.tags.append("u")
    assert (parcel.tags, parcel.line.tags) == (["a"], ["t"])


def test_containers_are_what_they_were_for_whoever_reads_them() -> None:
    parcel = Parcel(key="1", tags=["a"], marks={"a"}, counts={"a": 1})
    assert (parcel.tags, parcel.marks, parcel.counts) == (["a"], {"a"}, {"a": 1})
    assert isinstance(parcel.tags, list)
    assert json.loads(parcel.model_dump_json())["counts"] == json.loads(json.dumps(parcel.counts)) == {"a": 1}
    tags, marks, counts = parcel.tags, parcel.marks, parcel.counts
    tags += ["b"]
    marks |= {"b"}
    counts |= {"b": 2}
    assert (tags, marks, counts) == (["a", "b"], {"a", "b"}, {"a": 1, "b": 2})
    assert (parcel.tags, parcel.marks, parcel.counts) == (["a"], {"a"}, {"a": 1})


def test_an_event_whose_values_cannot_differ_is_validated_as_before() -> None:
    class Noted(Event, topic="notes", key="key"):
        key: str
        count: int = 0
        kind: Colour | None = None
        flags: tuple[bool, ...] = ()

    assert Noted.__pydantic_core_schema__["type"] == Changed.__pydantic_core_schema__["type"] == "model"


def test_a_day_later_is_a_day_later_in_utc_before_and_after_a_restore() -> None:
    at = datetime(2026, 10, 24, 12, tzinfo=BERLIN)  # summer time ends in the night after
    timed = Timed(key="1", at=at)
    assert timed.at + timedelta(days=1) == datetime(2026, 10, 25, 10, tzinfo=UTC)
    assert (timed.at.hour, timed.at.tzinfo) == (10, UTC)


class Later(Event, topic="later", key="key"):
    key: str
    parts: "list[Part]"


class Part(BaseModel):
    model_config = ConfigDict(frozen=True)

    at: datetime


def test_an_event_that_names_a_class_further_down_is_normal_too() -> None:
    later = Later(key="1", parts=[Part(at=datetime(2026, 5, 1, tzinfo=BERLIN))])
    assert later.parts[0].at.tzinfo is UTC
    with pytest.raises(TypeError, match="cannot be changed in place"):
        later.parts.clear()


@pytest.mark.parametrize("form", ["avro", "json", "protobuf"])
async def test_values_are_normal_in_every_format(form: Any) -> None:
    class Sent(Event, topic=Topic(f"sent.{form}", format=form), key="key"):
        key: str
        at: datetime
        money: Money
        raw: bytes
        line: Line
        tags: list[str]
        prices: dict[str, Money]
        ratio: float = 0

    sent = Sent(
        key="1",
        at=datetime(2026, 5, 1, tzinfo=BERLIN),
        money=Decimal("1.1"),
        raw=Blob(b"x"),
        line=OwnLine(sku="a"),
        tags=["a"],
        prices={name: Decimal(1) for name in ("z", "a", "m", "b")},
    )
    assert shown(sent) == shown(await again(sent))
