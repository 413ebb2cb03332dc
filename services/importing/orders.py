"""An order in a file: its model, and one sentence about the first field that is wrong."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from eventlib.values import EARLIEST, LATEST, decimals_of, escaped, minor_units, unsafe_in
from services.fields import MOST_LINES, Plain, not_plain
from services.order.events import OrderLine, OrderSubmitted

MOST_UNITS = 1_000_000
MOST_CENTS = 1_000_000_000
LONGEST_TEXT = 200
_MOST_ERRORS = 2_000
_SHOWN = 40


class Reason(StrEnum):
    """Why an order is refused, by precedence: the first that applies counts."""

    MALFORMED = "malformed"
    CREDIT_NOTE = "credit note"
    QUANTITY = "quantity"
    UNIT_PRICE = "unit price"
    NOTHING_TO_PAY = "nothing to pay"
    CONFLICT = "conflict"
    """The log has an order with this id already, with other content."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An order that is not placed: its id where it could be read, and what is wrong with it."""

    order_id: str | None
    reason: Reason
    detail: str


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def _time(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        at = datetime.fromisoformat(value)
        utc = at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{_shown(value)} is not a time; write 2010-12-01T08:26:00Z") from error
    if at.utcoffset() is None:
        raise ValueError(f"{_shown(value)} has no offset from UTC; write 2010-12-01T08:26:00Z")
    if not EARLIEST <= utc < LATEST:
        raise ValueError(f"{_shown(value)} is out of bounds: from {EARLIEST:%Y} to before {LATEST:%Y}")
    return utc


def _listed(currency: str) -> str:
    if minor_units(currency) is None:
        raise ValueError
    return currency


_Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_filled), Plain]


class _Read(BaseModel):
    """A part of a file, strict about types and fields; a field's description names what is expected of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Line(_Read):
    """A number of units of one product; a quantity or price that no order can have is refused later."""

    sku: _Text
    description: Annotated[str, Field(max_length=1_000), Plain] | None = Field(description="text or null")
    unit_price: str = Field(pattern=r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$", description='a decimal as text, such as "2.55"')
    quantity: int = Field(ge=-(2**63), le=MOST_UNITS, description="a whole number")


class Order(_Read):
    """A well-formed order; `currency` is an ISO 4217 code, `customer_id` None for a guest."""

    order_id: _Text
    placed_at: Annotated[datetime, BeforeValidator(_time)] = Field(description="a time as text")
    customer_id: Annotated[_Text | None, BeforeValidator(lambda value: None if value == "" else value)] = None
    country: _Text
    cancels: bool | None = Field(description="true, false or null")
    currency: Annotated[str, AfterValidator(_listed)] = Field(
        default="GBP", description="an ISO 4217 code, such as GBP"
    )
    lines: Annotated[list[Line], FailFast()] = Field(min_length=1, max_length=MOST_LINES, description="a list")

    @model_validator(mode="after")
    def _within_bounds(self) -> "Order":
        most = MOST_CENTS // 10 ** decimals_of(self.currency)
        for number, line in enumerate(self.lines, start=1):
            if Decimal(line.unit_price) > most:
                raise ValueError(f"line {number}, unit_price: {line.unit_price} is out of bounds; {most} is the most")
        return self

    @property
    def prices(self) -> list[int | None]:
        """Each line's unit price in minor units; None for one that is negative or no whole number of these."""
        decimals = decimals_of(self.currency)
        return [_cents(line.unit_price, decimals) for line in self.lines]

    def fault(self) -> Refusal | None:
        """Return why a well-formed order is refused all the same, or None."""
        if self.cancels:
            return Refusal(self.order_id, Reason.CREDIT_NOTE, "cancels is true")
        for number, line in enumerate(self.lines, start=1):
            if line.quantity < 1:
                detail = f"line {number} (sku {line.sku}): quantity is {line.quantity}"
                return Refusal(self.order_id, Reason.QUANTITY, detail)
        prices = self.prices
        if None in prices:
            number = prices.index(None)
            line = self.lines[number]
            what = f"has more decimals than {self.currency}: {decimals_of(self.currency)}"
            what = "is negative" if line.unit_price.startswith("-") else what
            detail = f"line {number + 1} (sku {line.sku}): unit_price {line.unit_price} {what}"
            return Refusal(self.order_id, Reason.UNIT_PRICE, detail)
        return None if any(prices) else Refusal(self.order_id, Reason.NOTHING_TO_PAY, "the total of all lines is 0")

    def request(self) -> OrderSubmitted:
        """Return the request to place an order without a fault."""
        return OrderSubmitted(
            order_id=self.order_id,
            customer_id=self.customer_id,
            country=self.country,
            currency=self.currency,
            lines=tuple(
                OrderLine(line_no=number, sku=line.sku, quantity=line.quantity, unit_price_cents=cents or 0)
                for number, (line, cents) in enumerate(zip(self.lines, self.prices, strict=True), start=1)
            ),
            placed_at=self.placed_at,
        )


@lru_cache(maxsize=8_192)
def _cents(price: str, decimals: int) -> int | None:
    whole, _, fraction = price.partition(".")
    digits = fraction.rstrip("0")
    return int(whole + digits.ljust(decimals, "0")) if Decimal(price) >= 0 and len(digits) <= decimals else None


def order_of(raw: object) -> Order | Refusal:
    """Return a decoded JSON value as an order; a refusal names the first field that is wrong."""
    try:
        return Order.model_validate(raw)
    except ValidationError as error:
        return malformed(_sentence_of(error), raw.get("order_id") if isinstance(raw, dict) else None)


def malformed(detail: str, order_id: object = None) -> Refusal:
    """Return the refusal of a malformed order; its id only where it is plain text."""
    is_plain = isinstance(order_id, str) and 0 < len(order_id) <= LONGEST_TEXT and not unsafe_in(order_id)
    return Refusal(str(order_id) if is_plain else None, Reason.MALFORMED, detail)


def _sentence_of(error: ValidationError) -> str:
    if error.error_count() > _MOST_ERRORS:  # to list them would take longer than to read the file
        return f"{error.error_count():,} fields are unknown or wrong"
    errors = error.errors(include_url=False)
    # A name that is unknown explains one that is missing.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    path, what = [*first["loc"]], _what(first)
    if path and first["type"] in {"missing", "extra_forbidden"}:
        path.pop()
    if path[1:]:
        path[:2] = [f"line {int(path[1]) + 1}"]
    return f"{', '.join(map(str, path))}: {what}" if path else what


def _what(error: ErrorDetails) -> str:  # noqa: PLR0911  one return for each kind of error
    """Return what is wrong with a field, without its name."""
    value, path, context = error["input"], error["loc"], error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"field {path[-1]} is missing"
        case "extra_forbidden":
            return f"unknown field {_shown(path[-1])}"
        case "string_unicode":  # half of a surrogate pair, in a field's name when there is no path
            return not_plain(str(unsafe_in(value))) if path else f"unknown field {_shown(value)}"
        case "string_too_long":
            return f"has {len(value)} characters, and {context['max_length']} is the most"
        case "too_short":
            return "the order has none"
        case "too_long":
            return f"the order has {len(value)}, and {MOST_LINES} is the most"
        case "less_than_equal" | "greater_than_equal":
            return f"{_shown(value)} is out of bounds; {MOST_UNITS} is the most"
        case "string_pattern_mismatch":
            return f'expected a decimal, such as "2.55", not {_shown(value)}'
        case "value_error" if reason := str(context["error"]):
            return reason
        case _:
            return f"expected {_expected(path)}, not {_shown(value)}"


def _expected(path: Sequence[str | int]) -> str:
    match path:
        case []:
            return "an object with an order's fields"
        case ["lines", _]:
            return "an object"
        case ["lines", _, name]:
            return Line.model_fields[str(name)].description or "text"
        case _:
            return Order.model_fields[str(path[0])].description or "text"


def _shown(value: object) -> str:
    """Return a value short and safe to print; a container only by its kind."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            text = f'"{escaped(value[: 2 * _SHOWN])}"'
        case _:
            text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
