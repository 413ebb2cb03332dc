"""An order in a file: validated field by field; the error names the first wrong field."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from eventlib.values import EARLIEST, LATEST, escaped, minor_units, unsafe_in
from services.fields import MOST_LINES, not_plain
from services.importing.refusals import Malformed, Reason

DEFAULT_CURRENCY = "GBP"

MOST_UNITS = 1_000_000
MOST_CENTS = 1_000_000_000
LONGEST_TEXT = 200
LONGEST_DESCRIPTION = 1_000

_ORDER_FIELDS = frozenset({"order_id", "placed_at", "customer_id", "country", "cancels", "lines", "currency"})
_ORDER_NEEDS = ("order_id", "placed_at", "country", "cancels", "lines")
_LINE_FIELDS = frozenset({"sku", "description", "quantity", "unit_price"})
_PRICE = re.compile(r"-?([0-9]{1,15})(?:\.([0-9]{1,15}))?")
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Price:
    """A unit price as it was written, and in minor units; None when it is negative, or not a whole number of these."""

    text: str
    cents: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """A number of units of one product; quantity and price may still be refused."""

    sku: str
    description: str | None
    quantity: int
    price: Price


@dataclass(frozen=True, slots=True)
class Order:
    """A well-formed order; `currency` is an ISO 4217 code, `customer_id` None for a guest."""

    order_id: str
    placed_at: datetime
    customer_id: str | None
    country: str
    currency: str
    cancels: bool
    lines: tuple[Line, ...]

    @property
    def units(self) -> int:
        """The total units of all lines."""
        return sum(line.quantity for line in self.lines)

    def fault(self) -> tuple[Reason, str] | None:
        """Return why a well-formed order is refused all the same, or None."""
        if self.cancels:
            return Reason.CREDIT_NOTE, "cancels is true"
        for number, line in enumerate(self.lines, start=1):
            if line.quantity < 1:
                return Reason.QUANTITY, f"line {number} (sku {line.sku}): quantity is {line.quantity}"
        for number, line in enumerate(self.lines, start=1):
            if line.price.cents is None:
                decimals = minor_units(self.currency)
                what = (
                    "is negative"
                    if line.price.text.startswith("-")
                    else f"has more decimals than {self.currency}: {decimals}"
                )
                return Reason.UNIT_PRICE, f"line {number} (sku {line.sku}): unit_price {line.price.text} {what}"
        if not any(line.price.cents for line in self.lines):
            return Reason.NOTHING_TO_PAY, "the total of all lines is 0"
        return None

    def content(self) -> int:
        """Return a digest of the order's content (64 bits), without its products' descriptions."""
        lines = [(line.sku, line.quantity, line.price.cents or 0) for line in self.lines]
        placed_at = self.placed_at.isoformat()
        return content_digest(self.order_id, placed_at, self.customer_id, self.country, self.currency, lines)


def content_digest(*content: object) -> int:
    """Return a digest of texts and numbers (64 bits)."""
    return int.from_bytes(blake2b(repr(content).encode(), digest_size=8).digest())


def order_of(raw: object) -> Order:
    """Return a decoded JSON value as an order. Raises: Malformed, naming the field."""
    if not isinstance(raw, dict):
        raise Malformed(f"expected an object with an order's fields, not {_shown(raw)}")
    _refuse_unknown(raw, _ORDER_FIELDS, "")
    for name in _ORDER_NEEDS:
        if name not in raw:
            raise Malformed(f"field {name} is missing")
    cancels = raw["cancels"]
    if cancels is not None and not isinstance(cancels, bool):
        raise Malformed(f"cancels: expected true, false or null, not {_shown(cancels)}")
    currency, decimals = _currency(raw.get("currency", DEFAULT_CURRENCY))
    return Order(
        order_id=_text(raw["order_id"], "order_id"),
        placed_at=_time(raw["placed_at"]),
        customer_id=_customer(raw.get("customer_id")),
        country=_text(raw["country"], "country"),
        currency=currency,
        cancels=bool(cancels),
        lines=_lines(raw["lines"], decimals),
    )


def order_id_of(raw: object) -> str | None:
    """Return the order id of a malformed order, if it has one that can be shown."""
    found = raw.get("order_id") if isinstance(raw, dict) else None
    if isinstance(found, str) and 0 < len(found) <= LONGEST_TEXT and not unsafe_in(found):
        return found
    return None


def _customer(value: object) -> str | None:
    return None if value is None or value == "" else _text(value, "customer_id")


def _lines(raw: object, decimals: int) -> tuple[Line, ...]:
    if not isinstance(raw, list):
        raise Malformed(f"lines: expected a list, not {_shown(raw)}")
    if not raw:
        raise Malformed("lines: the order has none")
    if len(raw) > MOST_LINES:
        raise Malformed(f"lines: the order has {len(raw)}, and {MOST_LINES} is the most")
    return tuple(_line(each, f"line {number}", decimals) for number, each in enumerate(raw, start=1))


def _line(raw: object, where: str, decimals: int) -> Line:
    if not isinstance(raw, dict):
        raise Malformed(f"{where}: expected an object, not {_shown(raw)}")
    if raw.keys() != _LINE_FIELDS:
        _refuse_unknown(raw, _LINE_FIELDS, f"{where}: ")
        missing = next(name for name in ("sku", "description", "quantity", "unit_price") if name not in raw)
        raise Malformed(f"{where}: field {missing} is missing")
    sku, description = raw["sku"], raw["description"]
    if description is not None:
        description = _description(description, where)
    price = _price(raw["unit_price"], where, decimals)
    return Line(_text(sku, where, "sku"), description, _quantity(raw["quantity"], where), price)


def _text(value: object, *where: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{', '.join(where)}: expected text, not {_shown(value)}")
    if not value.strip():
        raise Malformed(f"{', '.join(where)}: is empty")
    if len(value) > LONGEST_TEXT:
        raise Malformed(f"{', '.join(where)}: has {len(value)} characters, and {LONGEST_TEXT} is the most")
    _refuse_unsafe(value, ", ".join(where))
    return value


def _refuse_unsafe(text: str, where: str) -> None:
    if (found := unsafe_in(text)) is not None:
        raise Malformed(f"{where}: {not_plain(found)}")


def _description(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{where}, description: expected text or null, not {_shown(value)}")
    if len(value) > LONGEST_DESCRIPTION:
        raise Malformed(f"{where}, description: has {len(value)} characters, and {LONGEST_DESCRIPTION} is the most")
    _refuse_unsafe(value, f"{where}, description")
    return value


def _quantity(value: object, where: str) -> int:
    if type(value) is not int:
        raise Malformed(f"{where}, quantity: expected a whole number, not {_shown(value)}")
    if value > MOST_UNITS or value < -(2**63):
        raise Malformed(f"{where}, quantity: {_shown(value)} is out of bounds; {MOST_UNITS} is the most")
    return value


def _price(value: object, where: str, decimals: int) -> Price:
    if not isinstance(value, str):
        raise Malformed(f'{where}, unit_price: expected a decimal as text, such as "2.55", not {_shown(value)}')
    try:
        return _price_of(value, decimals)
    except Malformed as error:
        raise Malformed(f"{where}, unit_price: {error}") from None


@lru_cache(maxsize=8_192)
def _price_of(text: str, decimals: int) -> Price:
    found = _PRICE.fullmatch(text)
    if found is None:
        raise Malformed(f'expected a decimal, such as "2.55", not {_shown(text)}')
    most = MOST_CENTS // 10**decimals
    if Decimal(text) > most:
        raise Malformed(f"{text} is out of bounds; {most} is the most")
    fraction = (found[2] or "").rstrip("0")
    is_payable = Decimal(text) >= 0 and len(fraction) <= decimals
    return Price(text, int(found[1] + fraction.ljust(decimals, "0")) if is_payable else None)


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise Malformed(f"placed_at: expected a time as text, not {_shown(value)}")
    try:
        at = datetime.fromisoformat(value)
        utc = at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Malformed(f"placed_at: {_shown(value)} is not a time; write 2010-12-01T08:26:00Z") from error
    if at.utcoffset() is None:
        raise Malformed(f"placed_at: {_shown(value)} has no offset from UTC; write 2010-12-01T08:26:00Z")
    if not EARLIEST <= utc < LATEST:
        raise Malformed(f"placed_at: {_shown(value)} is out of bounds: from {EARLIEST:%Y} to before {LATEST:%Y}")
    return utc


def _currency(value: object) -> tuple[str, int]:
    """Return a currency, and how many decimals its minor unit is behind the point."""
    decimals = minor_units(value) if isinstance(value, str) else None
    if not isinstance(value, str) or decimals is None:
        raise Malformed(f"currency: expected an ISO 4217 code, such as GBP, not {_shown(value)}")
    return value, decimals


def _refuse_unknown(raw: Mapping[Any, Any], known: frozenset[str], where: str) -> None:
    unknown = next((name for name in raw if name not in known), None)
    if unknown is not None:
        raise Malformed(f"{where}unknown field {_shown(unknown)}")


def _shown(value: object) -> str:
    """Return a value short and safe to print; a container only by its kind."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None | bool():
            return str(value).lower().replace("none", "null")
        case str():
            text = f'"{escaped(value[: 2 * _SHOWN])}"'
            return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        case _:
            text = str(value)
            return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
