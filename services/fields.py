"""Field types that the shop's events share, with their bounds."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from eventlib import Money, Units
from eventlib.values import minor_units, unsafe_in


def _aware(at: datetime | None) -> datetime | None:
    if at is not None and at.utcoffset() is None:
        raise ValueError("a time needs its offset from UTC")
    return at


def not_plain(found: str) -> str:
    """Return the error message for a character that external text must not contain."""
    return f"has a control character, {found}: only plain text on one line is taken"


def _plain(text: str) -> str:
    if (found := unsafe_in(text)) is not None:
        raise ValueError(not_plain(found))
    return text


Plain = AfterValidator(_plain)
"""Checks external text where it enters; events already on the log stay readable."""

OrderId = Annotated[str, Field(min_length=1, max_length=200)]
DeliveryId = Annotated[str, Field(min_length=1, max_length=200)]
Sku = Annotated[str, Field(min_length=1, max_length=200)]
Country = Annotated[str, Field(min_length=1, max_length=200)]
GatewayKey = Annotated[str, Field(min_length=1, max_length=200)]
Reason = Annotated[str, Field(min_length=1, max_length=500)]

Tracking = Annotated[str, Field(min_length=1, max_length=500)]
"""A carrier's own reference, checked where it enters; events already on the log stay readable."""

LineNo = Annotated[int, Field(ge=1, le=1_000_000)]
Quantity = Annotated[int, Field(ge=1, le=1_000_000), Units("units")]
"""Units of one product in one line."""

Delivered = Annotated[int, Field(ge=1, le=1_000_000_000), Units("units")]
"""Units of one product in one delivery."""

PriceCents = Annotated[int, Field(ge=0, le=1_000_000_000)]
"""The price of one unit, in minor units of its currency."""

AmountCents = Annotated[int, Field(ge=0, lt=2**63), Money("currency")]
"""A sum of money, in minor units of its currency."""

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
"""An ISO 4217 code."""


def _listed(currency: str) -> str:
    if minor_units(currency) is None:
        raise ValueError("is no currency of ISO 4217")
    return currency


Listed = AfterValidator(_listed)
"""Checks a currency where it enters; events already on the log stay readable."""

UtcTime = Annotated[datetime, AfterValidator(_aware)]
UtcTimeOrNone = Annotated[datetime | None, AfterValidator(_aware)]

MOST_LINES = 5_000
"""The most lines of one order: with the bounds above, its total always fits into 63 bits."""


class Part(BaseModel):
    """A part of an event: frozen, and as strict about unknown fields as the event itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
