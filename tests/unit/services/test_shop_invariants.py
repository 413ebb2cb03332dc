"""The shop's invariants: whole stories keep them all, and each of them is broken by a story that is wrong in one place."""

from typing import Any

import pytest

from eventlib import Decider, Event, Meta
from eventlib.invariants import InvariantChecker
from services import shop
from services.dispatch.decider import shipments
from services.dispatch.events import CancelRefused
from services.dispatch.state import Shipment
from services.invariants.outside import Account, Parcels, accounts, parcels
from services.invariants.stock import units
from services.order.decider import orders
from services.order.events import OrderCancelled
from services.order.state import Money, Order, Stock
from services.payment.decider import payments
from services.payment.state import Payment
from services.stock.events import StockReceived
from services.stock.reservation import reservations
from services.stock.shelf import shelves
from services.stock.state import Reservation, Shelf
from tests.unit.services import telling as told

RECEIVED = [StockReceived(sku="A", quantity=9), StockReceived(sku="B", quantity=9)]
RESERVED = [told.A_REQUESTED, told.B_REQUESTED, told.A_RESERVED, told.B_RESERVED, told.RESERVED]
COMPLETED: list[Event] = [
    *RECEIVED,
    told.SUBMITTED,
    told.PLACED,
    *RESERVED,
    told.CHARGE,
    told.TAKEN,
    told.DISPATCH,
    told.DISPATCHED,
    told.A_SHIPPED,
    told.B_SHIPPED,
    told.STOCK_SHIPPED,
    told.COMPLETED,
]
CANCELLED: list[Event] = [
    *RECEIVED,
    told.SUBMITTED,
    told.PLACED,
    told.CANCEL_SUBMITTED,
    told.CANCEL_REQUESTED,
    *RESERVED,
    told.CHARGE,
    told.DISPATCH_CANCELLED,
    told.TAKEN,
    told.refund("customer"),
    told.refunded("customer"),
    told.A_RELEASE,
    told.B_RELEASE,
    told.A_RELEASED,
    told.B_RELEASED,
    told.released("customer"),
    told.cancelled("customer", 750),
]
COMPLETED_ORDER = Order(opened_at=told.ORDERED_AT, ended_at=told.ORDERED_AT, stock=Stock.SHIPPED, money=Money.TAKEN)


def broken(story: list[Event], paid: int = 0, returned: int = 0, parcels_booked: int = 0) -> set[str]:
    watch = InvariantChecker(shop.invariants)
    found = [violation for event in story for violation in watch.emitted(event, Meta("id"))]
    ended = story[-1]
    taken = sum(e.amount_cents for e in story if e == told.TAKEN)
    reason = ended.reason if isinstance(ended, OrderCancelled) else ""
    order = Order(reason=reason, ended_at=told.ORDERED_AT, taken_cents=taken, refunded_cents=returned)
    found += watch.changed(orders, "1", order)
    for sku in ("A", "B"):
        known = watch._known[units].get(sku)  # noqa: SLF001  the shelf as it should be
        if known is not None:
            found += watch.changed(shelves, sku, Shelf(known.on_hand, known.reserved, known.shipped))
    found += watch.rest({accounts: {"1": Account(1, paid, returned)}, parcels: {"1": Parcels(parcels_booked)}})
    return {violation.invariant.name for violation in found}


def without(story: list[Event], *left_out: Event) -> list[Event]:
    return [event for event in story if event not in left_out]


def told_after(story: list[Event], event: Event, *more: Event) -> list[Event]:
    at = story.index(event) + 1
    return [*story[:at], *more, *story[at:]]


def test_whole_stories_keep_every_law() -> None:
    assert broken(told_after(COMPLETED, told.CHARGE, told.CONFIRMED, told.ACCEPTED), 750, 0, 1) == set()
    assert broken(COMPLETED, 750, 0, 1) == set()
    assert broken(CANCELLED, 750, 750, 0) == set()


WRONG: list[tuple[str, list[Event]]] = [
    ("steps_happen_once", [*COMPLETED, told.DISPATCHED]),
    ("steps_happen_once", [*CANCELLED[:-1], told.refunded("customer"), CANCELLED[-1], told.A_RELEASED]),
    ("orders_end_once", [*COMPLETED, told.COMPLETED]),
    ("money_is_conserved", [*CANCELLED[:-1], told.refunded("customer"), CANCELLED[-1]]),
    ("money_is_conserved", without(CANCELLED, told.TAKEN)),
    ("charges_follow_stock", without(COMPLETED, told.RESERVED)),
    ("charges_follow_stock", [*CANCELLED[:-1], told.waived(), CANCELLED[-1]]),
    ("accepted_charges_are_confirmed", told_after(COMPLETED, told.CHARGE, told.ACCEPTED)),
    ("accepted_bookings_are_collected", told_after(COMPLETED, told.DISPATCH, told.BOOKING_ACCEPTED)),
    ("cancelled_parcels_stay", [*CANCELLED[:-1], told.DISPATCH, CANCELLED[-1]]),
    ("completed_orders_are_whole", without(COMPLETED, told.B_SHIPPED)),
    ("completed_orders_are_whole", without(COMPLETED, told.TAKEN)),
    ("cancelled_orders_leave_nothing", without(CANCELLED, told.B_RELEASED)),
    ("cancelled_orders_leave_nothing", without(CANCELLED, told.refunded("customer"))),
    ("cancelled_orders_leave_nothing", [*CANCELLED[:-1], told.cancelled("magic", 750)]),
    ("cancelled_orders_leave_nothing", [*CANCELLED[:-1], told.cancelled("customer", 1)]),
    ("submitted_orders_are_placed", [told.SUBMITTED]),
    ("orders_come_to_an_end", CANCELLED[:-1]),
    ("wishes_are_answered", [told.CANCEL_SUBMITTED, *COMPLETED]),
    ("wishes_are_answered", [CancelRefused(order_id="1", reason="late"), told.TOO_LATE, *COMPLETED]),
    ("customers_are_told_the_truth", [*COMPLETED[:-1], told.COMPLETED, told.refunded("x")]),
    ("units_are_conserved", COMPLETED[1:]),
    ("units_are_conserved", [told.A_RELEASED, *COMPLETED]),
    ("nothing_stays_set_aside", without(CANCELLED, told.A_RELEASED)),
    ("the_gateway_agrees", COMPLETED),
    ("the_carrier_agrees", COMPLETED),
]


@pytest.mark.parametrize(("invariant", "story"), WRONG)
def test_a_story_that_is_wrong_in_one_place_breaks_its_law(invariant: str, story: list[Event]) -> None:
    assert invariant in broken(story)


def test_shelves_that_differ_from_the_log_break_a_law() -> None:
    watch = InvariantChecker(shop.invariants)
    for event in RECEIVED:
        watch.emitted(event, Meta("id"))
    assert watch.changed(shelves, "A", Shelf(on_hand=9)) == []
    assert {(violation.invariant.name, violation.key) for violation in watch.rest()} == {
        ("shelves_hold_what_the_log_says", "B")
    }
    (violation,) = watch.changed(shelves, "A", Shelf(on_hand=-1))
    assert violation.invariant.name == "shelves_are_never_negative"


LEFT: list[tuple[str, Decider[Any], Any]] = [
    ("reservations_are_forgotten", reservations, Reservation(called_off="customer")),
    ("payments_are_forgotten", payments, Payment(called_off="customer")),
    ("shipments_are_forgotten", shipments, Shipment(cancel_waits=True)),
]


@pytest.mark.parametrize(("invariant", "decider", "state"), LEFT)
def test_what_is_left_for_ever_breaks_a_law(invariant: str, decider: Decider[Any], state: Any) -> None:
    watch = InvariantChecker(shop.invariants)
    watch.changed(decider, "1", state)
    assert [(violation.invariant.name, violation.key) for violation in watch.rest()] == [(invariant, "1")]
    watch.changed(decider, "1", None)
    assert watch.rest() == []
    assert watch.settled("order_id", "1") == [], "what was never known is not left"


def test_every_law_is_tried_here() -> None:
    about_shelves = {"shelves_hold_what_the_log_says", "shelves_are_never_negative"}
    assert {invariant.name for invariant in shop.invariants} == {name for name, _ in WRONG} | about_shelves | {
        name for name, *_ in LEFT
    }
