"""An application whose events and states have a field of every type, each with a value that JSON alone would lose."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import inf, nan
from types import GenericAlias
from typing import Any
from uuid import UUID

from eventlib import Choreography, Decider, Event, Service
from tests.apps.fields import Colour, Gift, Line, Money, Slotted, Step

ODD: dict[str, tuple[Any, Any]] = {
    "text": (str, "data:;base64,/w=="),
    "number": (int, -(2**63)),
    "ratio": (float, nan),
    "large": (float, -inf),
    "flag": (bool, True),
    "raw": (bytes, b"\xff\x00"),
    "raw_text": (bytes, b"data:;base64,"),
    "at": (datetime, datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)),
    "day": (date, date(2026, 1, 1)),
    "clock": (time, time(1, 2, 3, 4)),
    "money": (Money, Decimal("2.5")),
    "loose": (Decimal, Decimal("12345678901234567890.000000000000000001")),
    "ident": (UUID, UUID(int=7)),
    "colour": (Colour, Colour.RED),
    "line": (Line, Line(sku="a", tags=["t"])),
    "step": (Step, Step(weight=inf, below=(Step(weight=nan),))),
    "slotted": (Slotted, Slotted("s", {"a"})),
    "text_or_raw": (str | bytes, b"a"),
    "text_or_ratio": (float | str, nan),
    "exact_or_text": (Decimal | str, "1.5"),
    "day_or_moment": (date | datetime, datetime(2026, 1, 1, tzinfo=UTC)),
    "line_or_gift": (Line | Gift, Line(sku="a")),
}
FIELDS: dict[str, Any] = {}
VALUES: dict[str, Any] = {}
for _name, (_kind, _value) in ODD.items():
    FIELDS |= {_name: _kind, f"{_name}_or_none": _kind | None, f"{_name}_list": GenericAlias(tuple, (_kind, ...))}
    FIELDS |= {f"{_name}_map": GenericAlias(dict, (str, _kind))}
    VALUES |= {
        _name: _value,
        f"{_name}_or_none": _value,
        f"{_name}_list": (_value, _value),
        f"{_name}_map": {"k": _value},
    }

_EVENTS: Any = type(Event)


def _event(name: str, **declared: Any) -> Any:
    fields = {"__module__": __name__, "__annotations__": {"odd_id": str, "run": int, **FIELDS}}
    return _EVENTS(name, (Event,), fields, key="odd_id", **declared)


OddAsked = _event("OddAsked", topic="odd.requests", request=True)
OddDone = _event("OddDone", topic="odd", final=True)
_OPTIONAL: dict[str, Any] = {f"f_{name}": kind | None for name, kind in FIELDS.items()}
State: Any = dataclass(frozen=True)(
    type("State", (), {"__module__": __name__, "__annotations__": _OPTIONAL, **dict.fromkeys(_OPTIONAL)})
)
odds: Any = Decider("odd", state=State, key="odd_id")


def evolve(state: Any, event: Event) -> Any:
    return replace(state, **{f"f_{name}": getattr(event, name) for name in FIELDS})


def done(_: Any, asked: Any) -> Any:
    return [OddDone(odd_id=asked.odd_id, run=asked.run, **{name: getattr(asked, name) for name in FIELDS})]


evolve.__annotations__ |= {"state": State, "event": Event, "return": State}
done.__annotations__ |= {"_": State, "asked": OddAsked, "return": GenericAlias(list, (OddDone,))}
odds.evolve(evolve)
odds.on(done)
APP = Choreography("odds", [Service("odds", deciders=[odds])])


def asked(odd_id: str = "o1", run: int = 1) -> Any:
    return OddAsked(odd_id=odd_id, run=run, **VALUES)
