"""Money and units: fields of events whose sums say what a change of code is worth."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from pydantic import BaseModel

from eventlib.errors import WiringError
from eventlib.values import decimals_of


@dataclass(frozen=True, slots=True)
class Money:
    """Marks a field that is a sum of money: `amount_cents: Annotated[int, Money("currency")]`.

    `currency` is the event's field that has the currency, `places` how many of the digits of an int are behind the point:
    by default as many as the currency's minor unit has in ISO 4217, and 2 for a unit that is not a currency there.
    """

    currency: str
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Units:
    """Marks a field that counts something: `quantity: Annotated[int, Units("units")]`."""

    name: str


Measures = Mapping[str, Decimal]
"""How much of each currency or unit."""


@lru_cache(maxsize=1_024)
def _marks(cls: type[BaseModel]) -> tuple[tuple[str, Money | Units], ...]:
    return tuple(
        (name, mark)
        for name, info in cls.model_fields.items()
        for mark in info.metadata
        if isinstance(mark, Money | Units)
    )


def check_measures(cls: type[BaseModel]) -> None:
    """Refuse a mark on an event that could not be honoured. Raises: WiringError."""
    for name, mark in _marks(cls):
        if isinstance(mark, Money) and mark.currency not in cls.model_fields:
            raise WiringError(
                f"{cls.__name__}.{name}: Money({mark.currency!r}) names no field of the event: name the one that has the "
                "currency"
            )


def measures_of(event: BaseModel) -> Measures:
    """Return what an event's marked fields come to, by currency and unit."""
    found = dict[str, Decimal]()
    for name, mark in _marks(type(event)):
        value = getattr(event, name)
        if value is None:
            continue
        if isinstance(mark, Money):
            unit = str(getattr(event, mark.currency))
            places = decimals_of(unit) if mark.places is None else mark.places
            amount = Decimal(value).scaleb(-places) if isinstance(value, int) else Decimal(value)
        else:
            unit, amount = mark.name, Decimal(value)
        found[unit] = found.get(unit, Decimal()) + amount
    return found
