"""What the shop declares: which events ask, fail and end, what is known at first, and how much a field takes."""

from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from eventlib.model.event import contract_of
from services import fields as field_types
from services import shop
from services.invariants.outside import Account, Parcels
from services.invariants.stock import Units
from services.invariants.story import Story

ROLES = [
    ("final", {"OrderCompleted", "OrderCancelled"}),
    (
        "request",
        {"OrderSubmitted", "CancelSubmitted", "DeliverySubmitted", "ChargeConfirmed", "ChargeDeclined"}
        | {"ParcelCollected", "ParcelRefused"},
    ),
    (
        "failure",
        {"StockRejected", "LineRefused", "PaymentFailed", "ChargeDeclined", "DispatchFailed", "DispatchCancelled"}
        | {"ParcelRefused"},
    ),
]


@pytest.mark.parametrize(("role", "events"), ROLES)
def test_an_event_that_ends_asks_or_fails_is_declared_so_and_no_other(role: str, events: set[str]) -> None:
    assert {event.__name__ for event in shop.events if getattr(contract_of(event), role)} == events


NOTHING: tuple[object, ...] = (0, "", None, False, (), frozenset())


@pytest.mark.parametrize(
    "state", [*(decider.initial for decider in shop.deciders), Story(), Units(), Account(), Parcels()]
)
def test_a_state_of_which_nothing_is_known_says_nothing(state: Any) -> None:
    for each in fields(state):
        value = getattr(state, each.name)
        assert value is next(iter(type(value))) if isinstance(value, StrEnum) else value in NOTHING, each.name


TEXTS = [(name, 200) for name in ("OrderId", "DeliveryId", "Sku", "Country", "GatewayKey")] + [("Reason", 500)]
NUMBERS = [
    ("LineNo", 1, 1_000_000),
    ("Quantity", 1, 1_000_000),
    ("Delivered", 1, 1_000_000_000),
    ("PriceCents", 0, 1_000_000_000),
    ("AmountCents", 0, 2**63 - 1),
]


def takes(name: str, value: object) -> bool:
    try:
        TypeAdapter(getattr(field_types, name)).validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("name", "longest"), TEXTS)
def test_a_text_has_a_letter_at_least_and_no_more_than_fits(name: str, longest: int) -> None:
    assert [takes(name, "x" * length) for length in (0, 1, longest, longest + 1)] == [False, True, True, False]


@pytest.mark.parametrize(("name", "least", "most"), NUMBERS)
def test_a_number_is_within_its_bounds(name: str, least: int, most: int) -> None:
    assert [takes(name, value) for value in (least - 1, least, most, most + 1)] == [False, True, True, False]


def test_a_part_of_an_event_takes_no_other_field_and_does_not_change() -> None:
    class Line(field_types.Part):
        sku: Annotated[str, "its product"]

    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Line.model_validate({"sku": "A", "more": 1})
    with pytest.raises(ValidationError, match="frozen"):
        Line(sku="A").sku = "B"


def test_the_total_of_the_largest_order_is_an_amount() -> None:
    assert field_types.MOST_LINES == 5_000
    assert takes("AmountCents", field_types.MOST_LINES * 1_000_000 * 1_000_000_000)
