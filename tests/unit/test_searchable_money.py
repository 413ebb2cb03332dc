"""Amounts that are searchable with their currency."""

from decimal import Decimal
from typing import Annotated

import pytest
from pydantic import Field

from eventlib import Event, WiringError
from eventlib.model.searchable import searchable_fields
from eventlib.search import Searchable


def test_an_amount_names_the_attribute_that_has_its_currency() -> None:
    class FeeTaken(Event, topic="fees", key="fee_id"):
        fee_id: str
        unit: Annotated[str, Searchable(name="currency")]
        cents: Annotated[int, Searchable(name="fee", money="unit")]
        whole: Annotated[Decimal, Field(max_digits=10, decimal_places=2), Searchable(money="unit")]

    found = searchable_fields(FeeTaken)
    assert {name: each.currency for name, each in found.items()} == {
        "currency": "",
        "fee": "currency",
        "whole": "currency",
    }


def test_an_amount_without_a_searchable_currency_is_refused() -> None:
    with pytest.raises(WiringError, match=r"FeeLost.cents is money in 'unit': mark an int or a Decimal so"):

        class FeeLost(Event, topic="fees", key="fee_id"):
            fee_id: str
            unit: str
            cents: Annotated[int, Searchable(money="unit")]


@pytest.mark.parametrize(
    "wrong", [Annotated[str, Searchable(money="unit")], Annotated[int, Searchable(money="unit", many=True)]]
)
def test_only_a_number_that_a_saga_has_once_is_money(wrong: object) -> None:
    with pytest.raises(WiringError, match="is money in 'unit'"):
        type(
            "FeeLost",
            (Event,),
            {"__annotations__": {"fee_id": str, "unit": Annotated[str, Searchable], "paid": wrong}},
            topic="fees",
            key="fee_id",
        )
