"""The shop as a whole: its choreography is clean, its topics are the promised ones, and nonsense cannot be said."""

from collections import defaultdict
from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from eventlib.analysis.checks import check
from eventlib.model.event import contract_of
from services import shop
from services.order.events import ProductListed
from services.payment.events import ChargeRequested
from services.stock.events import LineRequested, StockReceived
from tests.unit.services.telling import SUBMITTED

TOPICS = {
    "products sku": "ProductListed ProductDelisted",
    "order.requests order_id": "OrderSubmitted CancelSubmitted",
    "orders order_id": "OrderPlaced OrderCancelRequested OrderCompleted OrderCancelled",
    "stock.deliveries delivery_id": "DeliverySubmitted",
    "stock.requests sku": "StockReceived LineRequested LineReleaseRequested LineShipped",
    "stock.lines order_id": "LineReserved LineRefused LineReleased",
    "stock order_id": "StockReserved StockRejected StockReleased StockShipped",
    "payments order_id": "ChargeRequested ChargeAccepted PaymentTaken PaymentFailed ChargeUncertain VoidRequested PaymentVoided "
    "RefundRequested PaymentRefunded PaymentWaived",
    "dispatches order_id": "DispatchRequested BookingAccepted DispatchUncertain RecallRequested OrderDispatched DispatchFailed "
    "DispatchCancelled CancelRefused",
    "dispatch.callbacks order_id": "ParcelCollected ParcelRefused",
    "orders.large order_id": "LargeOrderSeen",
    "payment.callbacks order_id": "ChargeConfirmed ChargeDeclined",
    "payments.alerts country": "PaymentsDegraded",
    "stock.alerts sku": "ShelfRunningLow",
}


def test_the_choreography_is_clean() -> None:
    assert check(shop) == []


def test_every_event_is_on_its_topic_under_its_key() -> None:
    found = defaultdict[str, set[str]](set)
    for event in shop.events:
        contract = contract_of(event)
        found[f"{contract.topic.name} {contract.key}"].add(contract.type)
    assert found == {topic: set(events.split()) for topic, events in TOPICS.items()}


def test_only_requests_come_from_outside() -> None:
    requests = {event.__name__ for event in shop.events if contract_of(event).request}
    callbacks = {"ChargeConfirmed", "ChargeDeclined", "ParcelCollected", "ParcelRefused"}
    assert requests == {"OrderSubmitted", "CancelSubmitted", "DeliverySubmitted"} | callbacks


def test_products_are_held_twice() -> None:
    assert shop.event("ProductDelisted").__contract__ is not None
    assert contract_of(ProductListed).topic.latest
    assert contract_of(shop.event("ProductDelisted")).tombstone


def line(**changed: object) -> dict[str, Any]:
    return {"line_no": 1, "sku": "A", "quantity": 2, "unit_price_cents": 250} | changed


@pytest.mark.parametrize(
    "changed",
    [
        {"order_id": ""},
        {"order_id": 1},
        {"customer_id": ""},
        {"country": ""},
        {"currency": "gbp"},
        {"currency": "GBPS"},
        {"currency": "GBP\n"},
        {"lines": []},
        {"lines": [line(quantity=0)]},
        {"lines": [line(quantity=-1)]},
        {"lines": [line(quantity=10**30)]},
        {"lines": [line(quantity=1.5)]},
        {"lines": [line(unit_price_cents=-1)]},
        {"lines": [line(sku="")]},
        {"lines": [line(colour="red")]},
        {"lines": [line(), line()]},
        {"placed_at": datetime(2010, 12, 1)},  # noqa: DTZ001  the point: it lacks its offset
        {"colour": "red"},
    ],
    ids=str,
)
def test_an_order_that_makes_no_sense_cannot_be_submitted(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        type(SUBMITTED).model_validate(SUBMITTED.model_dump() | changed)


def test_a_line_asks_for_at_least_one_unit() -> None:
    with pytest.raises(ValidationError):
        LineRequested(order_id="1", line_no=1, sku="A", quantity=0)
    with pytest.raises(ValidationError):
        StockReceived(sku="A", quantity=0)


def test_a_charge_is_not_negative() -> None:
    with pytest.raises(ValidationError):
        ChargeRequested(order_id="1", amount_cents=-1, currency="GBP", country="France")
