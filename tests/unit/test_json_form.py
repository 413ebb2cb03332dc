"""The JSON form of events and states is lossless, and that of ordinary values is what Pydantic writes."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from eventlib import Event
from eventlib.errors import ContractError
from eventlib.json_form import json_of, json_text, read_json
from eventlib.model.schema.normal import normal
from tests.apps.fields import KINDS, Colour, Gift, Line, Step, event_of, shown, state_of, values_of, variants

ODD_FLOATS = st.floats() | st.sampled_from([nan, inf, -inf, -0.0])
ODD_BYTES = st.binary(max_size=6) | st.sampled_from([b"\xff", b"data:;base64,", b"data:;base64,/w==", b'{"$type": 1}'])
TEXTS = st.sampled_from(["a", "NaN", "2026-01-01", "1.5", "red", "data:;base64,/w==", "true"])
DATES = st.dates(min_value=date(2000, 1, 1), max_value=date(2100, 1, 1))
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  the strategy adds it
DECIMALS = st.sampled_from([Decimal("1.5"), Decimal(0), Decimal("1e-18"), Decimal("12345678901234567890.5")])
NUMBERS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
ODD: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    **KINDS,
    "ratio": (float, ODD_FLOATS),
    "raw": (bytes, ODD_BYTES),
    "number": (int, NUMBERS),
    "loose": (Decimal, DECIMALS),
    "text_or_raw": (str | bytes, TEXTS | ODD_BYTES),
    "text_or_ratio": (float | str, ODD_FLOATS | TEXTS),
    "number_or_ratio": (int | float, NUMBERS | ODD_FLOATS),
    "exact_or_ratio": (Decimal | float, DECIMALS | ODD_FLOATS),
    "exact_or_text": (Decimal | str, DECIMALS | TEXTS),
    "moment_or_text": (datetime | str, TIMES | TEXTS),
    "moment_or_day": (date | datetime, TIMES | DATES),
    "colour_or_text": (Colour | str, st.sampled_from(Colour) | TEXTS),
    "line_or_gift": (Line | Gift, st.sampled_from([Line(sku="a"), Gift(sku="a", note="")])),
    "map_or_raw": (dict[str, bytes] | bytes, st.dictionaries(TEXTS | st.just("$type"), ODD_BYTES, max_size=2) | ODD_BYTES),
    "marked": (dict[str, str] | str, st.just({"$type": "string", "value": "a"}) | TEXTS),
    "ratios_or_text": (list[float] | str, st.lists(ODD_FLOATS, max_size=2) | TEXTS),
    "steps": (Step | None, st.sampled_from([Step(), Step(None, nan, (Step(weight=inf),))])),
}  # fmt: skip
EACH = variants(ODD, tuples=False)
Odd, State = event_of("Odd", EACH), state_of("State", EACH)


@settings(max_examples=200, deadline=None)
@given(values_of(EACH))
def test_events_and_states_of_every_type_are_what_their_json_is_read_as(values: dict[str, Any]) -> None:
    for value in (Odd(key="k", **values), normal(State(**values))):
        text = json_text(value)
        assert shown(read_json(type(value), text)) == shown(value)
        json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


class Ordinary(Event, topic="ordinary", key="key"):
    key: str
    raw: bytes = b"text"
    ratio: float = 1.5
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    money: Annotated[Decimal, Field(max_digits=12, decimal_places=2)] = Decimal("1.50")
    either: int | str | Line = "a"
    line: Line = Line(sku="a", tags=["t"])
    steps: tuple[Step, ...] = (Step(weight=2.5),)


@pytest.mark.parametrize(
    "fields", [{}, {"either": 3}, {"either": Line(sku="x")}, {"raw": "ä".encode(), "ratio": -0.0}, {"ratio": 1e300}]
)
def test_ordinary_values_have_the_json_that_pydantic_writes(fields: dict[str, Any]) -> None:
    event = Ordinary(key="1", **fields)
    assert json_text(event) == event.model_dump_json()
    assert json_of(event) == event.model_dump(mode="json")


def test_odd_values_have_the_json_that_is_documented() -> None:
    class Odds(Event, topic="odds", key="key"):
        key: str
        raw: bytes
        ratios: list[float]
        either: str | bytes

    odds = Odds(key="1", raw=b"\xff", ratios=[nan, inf, -inf], either=b"a")
    assert json_of(odds) == {
        "key": "1",
        "raw": "data:;base64,/w==",
        "ratios": ["NaN", "Infinity", "-Infinity"],
        "either": {"$type": "bytes", "value": "a"},
    }


def test_bytes_whose_base64_is_broken_are_refused_with_the_fields_name() -> None:
    with pytest.raises(ContractError, match=r"Ordinary\.raw: 'data:;base64,\?' is not base64"):
        read_json(Ordinary, '{"key": "1", "raw": "data:;base64,?"}')


def test_what_does_not_fit_is_refused_as_pydantic_does_it() -> None:
    for text in (
        '{"key": "1", "ratio": "x"}',
        '{"key": "1", "raw": "data:;base64,/w==", "ratio": "x"}',
        "[",
        '["$type"]',
    ):
        with pytest.raises(ValidationError):
            read_json(Ordinary, text)
