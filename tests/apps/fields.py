"""A field of every type: the classes of parts, and values of each kind, those of subclasses and other zones among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from types import GenericAlias
from typing import Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from eventlib import Event
from eventlib.codec.wire_format import FramedCodec
from eventlib.log.memory import MemoryLog

Kinds = Mapping[str, tuple[Any, st.SearchStrategy[Any]]]
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

KINDS: Kinds = {
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


def variants(kinds: Kinds, *, tuples: bool = True) -> Kinds:
    """Return each kind alone, optional, in lists and in maps, and in tuples too, by the names of fields."""
    keys = st.sampled_from(["b", Text("a"), Colour.RED])
    found = dict[str, tuple[Any, st.SearchStrategy[Any]]]()
    for name, (kind, values) in kinds.items():
        some = st.lists(values, max_size=2)
        found |= {name: (kind, values), f"{name}_or_none": (kind | None, st.none() | values)}
        found[f"{name}_list"] = GenericAlias(list, (kind,)), some
        found[f"{name}_map"] = GenericAlias(dict, (str, kind)), st.dictionaries(keys, values, max_size=2)
        if tuples:
            found[f"{name}_tuple"] = GenericAlias(tuple, (kind, ...)), some.map(tuple)
    return found


def event_of(name: str, kinds: Kinds, **declared: Any) -> Any:
    """Return an event with a key and a field of each kind; its topic is its name in small letters."""
    annotations = {"key": str, **{field_name: kind for field_name, (kind, _) in kinds.items()}}
    body = {"__module__": __name__, "__annotations__": annotations}
    events: Any = type(Event)
    return events(name, (Event,), body, topic=name.lower(), key="key", **declared)


def state_of(name: str, kinds: Kinds) -> Any:
    """Return a state with an optional field of each kind."""
    annotations = {field_name: kind | None for field_name, (kind, _) in kinds.items()}
    body = {"__module__": __name__, "__annotations__": annotations, **dict.fromkeys(annotations)}
    return dataclass(frozen=True)(type(name, (), body))


def values_of(kinds: Kinds) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a value for each field."""
    return st.fixed_dictionaries({name: values for name, (_, values) in kinds.items()})


def every(kinds: Kinds) -> Kinds:
    """Return the variants of all kinds, and sets of those whose values can be in one."""
    found = {**variants(kinds)}
    for name in ("text", "number", "day", "ident", "colour"):
        kind, values = kinds[name]
        found[f"{name}_set"] = GenericAlias(set, (kind,)), st.sets(values, max_size=1)
        found[f"{name}_frozen"] = GenericAlias(frozenset, (kind,)), st.frozensets(values, max_size=1)
    return found


EVERY = every(KINDS)
Everything = event_of("Everything", EVERY)


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


async def codec_for(*classes: type[Any]) -> FramedCodec:
    """Return a codec, on a log in memory, that writes these classes."""
    codec = FramedCodec(MemoryLog())
    await codec.prepare(("topic", cls) for cls in classes)
    return codec
