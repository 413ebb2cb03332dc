"""The shop as a whole: its choreography is clean, its events declare what they should, survive the wire, and refuse nonsense."""

from collections import defaultdict
from copy import copy
from dataclasses import fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from eventlib import Choreography, Decider, Event, Service
from eventlib.analysis import compensation
from eventlib.analysis.checks import check
from eventlib.analysis.event_graph import EventGraph
from eventlib.codec.wire_format import FramedCodec
from eventlib.log.memory import MemoryLog
from eventlib.model.event import contract_of
from eventlib.testing import given
from services import fields as field_types
from services import shop
from services.dispatch import state as dispatch_state
from services.dispatch.decider import shipments
from services.dispatch.events import DispatchCancelled, DispatchFailed
from services.invariants.outside import Account, Parcels
from services.invariants.stock import Units
from services.invariants.story import Story
from services.order.decider import orders
from services.order.events import OrderCancelRequested, ProductListed
from services.order.state import Cancel, Money, Parcel, Status, Stock
from services.payment import state as payment_state
from services.payment.decider import payments
from services.payment.events import ChargeRequested, ChargeUncertain, PaymentFailed, PaymentTaken
from services.stock.events import LineRefused, LineReleased, LineRequested, LineReserved, StockReceived, StockReserved
from services.stock.reservation import reservations
from tests.unit.services import telling
from tests.unit.services.telling import SUBMITTED
from tests.unit.services.test_large_orders import large_order

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


def forgetting(decider: str, event: type[Event]) -> Choreography:
    """Return the shop with a decider that does not handle an event."""

    def with_fault(sound: Decider[Any]) -> Decider[Any]:
        if sound.name != decider:
            return sound
        faulty = copy(sound)
        faulty.handlers = {each: handler for each, handler in sound.handlers.items() if each is not event}
        assert len(faulty.handlers) == len(sound.handlers) - 1
        return faulty

    services = [Service(each.name, deciders=[with_fault(d) for d in each.deciders]) for each in shop.services]
    return Choreography("forgetful", services, facts=shop.facts)


@pytest.mark.parametrize(
    ("decider", "event", "rule", "subject"),
    [
        ("reservation", PaymentFailed, "compensation-out-of-reach", "StockReserved, PaymentFailed"),
        ("reservation", DispatchFailed, "compensation-out-of-reach", "LineReserved, DispatchFailed"),
        ("reservation", DispatchFailed, "compensation-out-of-reach", "LineReserved, DispatchUncertain"),
        ("reservation", LineRefused, "compensation-out-of-reach", "LineReserved, LineRefused"),
        ("reservation", LineReleased, "compensation-out-of-reach", "StockReserved, DispatchFailed"),
        ("reservation", LineReserved, "event-without-handler", "LineReserved"),
        ("payment", StockReserved, "effect-never-requested", "ChargeRequested"),
        ("payment", ChargeUncertain, "compensation-out-of-reach", "PaymentTaken, ChargeUncertain"),
        ("payment", DispatchFailed, "compensation-out-of-reach", "PaymentTaken, DispatchFailed"),
        ("payment", DispatchCancelled, "compensation-out-of-reach", "PaymentTaken, DispatchCancelled"),
        ("payment", PaymentTaken, "late-step", "PaymentTaken"),
        ("shipment", PaymentTaken, "effect-never-requested", "DispatchRequested"),
        ("shipment", OrderCancelRequested, "wait-without-deadline", "reservation"),
    ],
)
def test_a_forgotten_event_is_found(decider: str, event: type[Event], rule: str, subject: str) -> None:
    assert (rule, subject) in {(finding.rule, finding.subject) for finding in check(forgetting(decider, event))}


def test_the_risks_of_the_shop_are_the_known_ones() -> None:
    steps, failures = compensation.proved(EventGraph(shop))
    # StockReserved, ChargeAccepted, ChargeConfirmed, PaymentTaken, OrderPlaced, LineReserved,
    # BookingAccepted, ParcelCollected, OrderDispatched
    assert (steps, failures) == (9, 41)


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


TOLD = [value for value in vars(telling).values() if isinstance(value, Event)]
STATES = [
    given(orders, telling.CANCEL_SUBMITTED).state,
    given(orders, telling.SUBMITTED, telling.PLACED, telling.TAKEN, telling.DISPATCHED).state,
    given(orders, telling.SUBMITTED, telling.PLACED, telling.REJECTED, telling.cancelled("out_of_stock")).state,
    given(reservations, telling.PLACED, telling.A_RESERVED, telling.B_REFUSED).state,
    given(payments, telling.RESERVED, telling.CHARGE, telling.COMPLETED).state,
    given(shipments, telling.TAKEN, telling.DISPATCH, telling.CANCEL_REQUESTED).state,
    *(decider.initial for decider in shop.deciders),
]


async def codec() -> FramedCodec:
    made = FramedCodec(MemoryLog())
    await made.prepare((contract_of(event).topic.name, event) for event in shop.events)
    await made.prepare((f"{shop.service_of(d).name}.changelog", d.state) for d in shop.deciders)
    return made


@pytest.mark.parametrize("value", [*TOLD, *STATES], ids=lambda value: type(value).__name__)
async def test_it_comes_back_as_it_was(value: object) -> None:
    wire = await codec()
    assert wire.decode(type(value), wire.encode(value)) == value


async def test_a_reservation_grows_with_what_it_holds_and_is_small_when_it_has_closed() -> None:
    wire = await codec()
    held = given(reservations, *large_order(1_114)).state
    assert len(wire.encode(held)) < 12 * 1_114
    assert len(wire.encode(replace(held, held=()))) < 60


@pytest.mark.parametrize("kind", [Stock, Money, Parcel, Cancel, Status, payment_state.Stage, dispatch_state.Stage])
def test_what_stands_in_states_on_the_log_is_the_name_in_small_letters(kind: type[StrEnum]) -> None:
    assert [each.value for each in kind] == [each.name.lower() for each in kind]
