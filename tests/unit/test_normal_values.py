"""A value in an event or a state is what its bytes give back: compared by type and by how it is shown, not by `==`."""

import copy
import json
import pickle
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import GenericAlias
from typing import Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventlib import Decider, Event, Topic
from eventlib.codec.wire_format import FramedCodec
from eventlib.errors import ContractError
from eventlib.log.memory import MemoryLog
from eventlib.model.event import Meta

META = Meta("1")
BERLIN = ZoneInfo("Europe/Berlin")


class Text(str):
    __slots__ = ()


class Moment(datetime):
    pass


class Day(date):
    pass


class Number(int):
    pass


class Ratio(float):
    pass


class Blob(bytes):
    pass


class Amount(Decimal):
    pass


class Ident(UUID):
    pass


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Line(BaseModel):
    model_config = ConfigDict(frozen=True)

    sku: str
    price: Annotated[Decimal, Field(decimal_places=4)] = Decimal(1)
    tags: list[str] = []


class OwnLine(Line):
    """It has no fields of its own."""


class Gift(Line):
    note: str


@dataclass(frozen=True)
class Step:
    at: datetime | None = None
    weight: float = 0
    below: "tuple[Step, ...]" = ()


@dataclass(frozen=True, slots=True)
class Slotted:
    name: str = ""
    seen: set[str] = field(default_factory=set)


Money = Annotated[Decimal, Field(max_digits=12, decimal_places=4)]

KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "text": (str, st.sampled_from(["a", Text("b"), Colour.RED])),
    "number": (int, st.sampled_from([1, Number(2), Level.LOW])),
    "ratio": (float, st.sampled_from([1, 1.5, Ratio(2.5), -0.0])),
    "flag": (bool, st.booleans()),
    "raw": (bytes, st.sampled_from([b"a", bytearray(b"b"), Blob(b"c")])),
    "at": (
        datetime,
        st.sampled_from(
            [
                datetime(2026, 1, 1, tzinfo=UTC),
                datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
                datetime(2026, 5, 1, tzinfo=UTC, fold=1),
                Moment(2026, 5, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            ]
        ),
    ),
    "day": (date, st.sampled_from([date(2026, 1, 1), Day(2026, 1, 2)])),
    "clock": (time, st.sampled_from([time(1), time(1, fold=1)])),
    "money": (Money, st.sampled_from([Decimal("1.1"), Decimal("-0"), Amount("2.50"), Decimal("1E+3")])),
    "loose": (Decimal, st.sampled_from([Decimal("1.1"), Decimal(0), Amount("0.00")])),
    "ident": (UUID, st.sampled_from([UUID(int=1), Ident(int=2)])),
    "colour": (Colour, st.sampled_from(Colour)),
    "choice": (Literal["red", "a"], st.sampled_from(["a", Text("a"), Colour.RED])),
    "line": (Line, st.sampled_from([Line(sku="a"), OwnLine(sku="b", price=Decimal("2.5"), tags=["x"])])),
    "step": (Step, st.sampled_from([Step(), Step(datetime(2026, 5, 1, tzinfo=BERLIN), 2, (Step(weight=Ratio(1)),))])),
    "slotted": (Slotted, st.sampled_from([Slotted(), Slotted(Colour.RED, {Text("a")})])),
    "union": (Line | Colour | float | str, st.sampled_from([Line(sku="u"), Colour.BLUE, 1, Text("t")])),
    "moments": (date | datetime, st.sampled_from([Day(2026, 1, 1), datetime(2026, 5, 1, tzinfo=BERLIN)])),
}

ANNOTATIONS: dict[str, Any] = {}
VALUES: dict[str, st.SearchStrategy[Any]] = {}
for _name, (_kind, _values) in KINDS.items():
    ANNOTATIONS |= {_name: _kind, f"{_name}_or_none": _kind | None, f"{_name}_tuple": GenericAlias(tuple, (_kind, ...))}
    ANNOTATIONS |= {f"{_name}_list": GenericAlias(list, (_kind,)), f"{_name}_map": GenericAlias(dict, (str, _kind))}
    VALUES |= {_name: _values, f"{_name}_or_none": st.none() | _values}
    VALUES |= {
        f"{_name}_tuple": st.lists(_values, max_size=2).map(tuple),
        f"{_name}_list": st.lists(_values, max_size=2),
    }
    VALUES[f"{_name}_map"] = st.dictionaries(st.sampled_from(["b", Text("a"), Colour.RED]), _values, max_size=2)
for _name in ("text", "number", "day", "ident", "colour"):
    ANNOTATIONS |= {
        f"{_name}_set": GenericAlias(set, (KINDS[_name][0],)),
        f"{_name}_frozen": GenericAlias(frozenset, (KINDS[_name][0],)),
    }
    VALUES |= {
        f"{_name}_set": st.sets(KINDS[_name][1], max_size=1),
        f"{_name}_frozen": st.frozensets(KINDS[_name][1], max_size=1),
    }

NAMED = {"__module__": __name__, "__annotations__": {"key": str, **ANNOTATIONS}}
EVENTS: Any = type(Event)
Everything = EVENTS("Everything", (Event,), dict(NAMED), topic="everything", key="key")
State: Any = dataclass(frozen=True)(
    type("State", (), {"__module__": __name__, "__annotations__": {f"f_{n}": a | None for n, a in ANNOTATIONS.items()}}
         | {f"f_{name}": None for name in ANNOTATIONS})
)  # fmt: skip


class Changed(Event, topic="changes", key="key"):
    key: str


def shown(value: Any) -> Any:
    """Return a value with the class of each of its parts."""
    if isinstance(value, BaseModel):
        return type(value), {name: shown(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), {each.name: shown(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return type(value), [(shown(key), shown(each)) for key, each in value.items()]
    if isinstance(value, set | frozenset):
        return type(value), sorted(map(repr, map(shown, value)))
    if isinstance(value, list | tuple):
        return type(value), [shown(each) for each in value]
    return type(value), repr(value)


CODEC = FramedCodec(MemoryLog())


async def again(value: Any) -> Any:
    await CODEC.prepare([("topic", type(value))])
    return CODEC.decode(type(value), CODEC.encode(value))


@settings(max_examples=30)
@given(st.fixed_dictionaries(VALUES))
async def test_an_event_has_the_values_that_its_bytes_give_back(values: dict[str, Any]) -> None:
    event = Everything(key="k", **values)
    copied = event.model_copy(update=values)
    made = Everything.model_construct(key="k", **values)
    for each in (event, copied, made, copy.deepcopy(event), pickle.loads(pickle.dumps(event))):  # noqa: S301  its own bytes
        assert shown(each) == shown(await again(each)) == shown(event)


@settings(max_examples=30)
@given(st.fixed_dictionaries(VALUES))
async def test_a_state_has_the_values_that_the_changelog_gives_back(values: dict[str, Any]) -> None:
    decider = Decider("d", state=State, key="key")

    @decider.evolve
    def evolve(state: Any, _: Event) -> Any:
        return replace(state, **{f"f_{name}": value for name, value in values.items()})

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
