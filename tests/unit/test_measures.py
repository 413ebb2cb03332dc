"""What events are worth: fields that are marked as money or units."""

from decimal import Decimal
from typing import Annotated

import pytest

from eventlib import Event, Money, Units, WiringError
from eventlib.model.measures import measures_of


class Sold(Event, topic="sales", key="sale"):
    """Something was sold."""

    sale: str
    cents: Annotated[int, Money("currency")]
    yen: Annotated[int, Money("other", places=0)]
    tip: Annotated[Decimal | None, Money("currency")]
    currency: str
    other: str = "JPY"
    pieces: Annotated[int, Units("pieces")]


def test_sums_are_by_currency_and_unit() -> None:
    sold = Sold(sale="1", cents=1995, yen=300, tip=Decimal("0.5"), currency="EUR", pieces=3)
    assert measures_of(sold) == {"EUR": Decimal("20.45"), "JPY": Decimal(300), "pieces": Decimal(3)}
    assert measures_of(sold.model_copy(update={"tip": None}))["EUR"] == Decimal("19.95")


def test_money_names_the_field_that_has_its_currency() -> None:
    with pytest.raises(WiringError, match=r"Lost.cents: Money\('curency'\) names no field of the event"):

        class Lost(Event, topic="sales", key="sale"):
            sale: str
            cents: Annotated[int, Money("curency")]
            currency: str
