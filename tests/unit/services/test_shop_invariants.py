"""The shop's invariants: every lawful course of an order keeps them all, and each part of one is what some wrong course breaks."""

from typing import Any

import pytest

from eventlib import Decider, Event, Meta
from eventlib.invariants import ExternalStates, InvariantChecker
from services import shop
from services.dispatch.decider import shipments
from services.dispatch.events import CancelRefused
from services.dispatch.state import Shipment
from services.invariants.outside import Account, Parcels, accounts, parcels
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

BEGUN: list[Event] = [
    StockReceived(sku="A", quantity=9),
    StockReceived(sku="B", quantity=9),
    *(told.SUBMITTED, told.PLACED, told.A_REQUESTED, told.B_REQUESTED),
]
RESERVED = [told.A_RESERVED, told.B_RESERVED, told.RESERVED]
RELEASED = [told.A_RELEASE, told.B_RELEASE, told.A_RELEASED, told.B_RELEASED]
ACCEPTED = [told.ACCEPTED, told.TAKEN]
PAID = [*BEGUN, *RESERVED, told.CHARGE, told.TAKEN]
SHIPPED = [told.DISPATCH, told.DISPATCHED, told.A_SHIPPED, told.B_SHIPPED, told.STOCK_SHIPPED]
REPAID = [told.refund("undeliverable"), told.refunded("undeliverable")]
UNDELIVERABLE = [*PAID, told.DISPATCH, told.UNDELIVERABLE, *REPAID, *RELEASED, told.released("undeliverable")]

LAWFUL: dict[str, list[Event]] = {
    "completed": [*PAID, *SHIPPED, told.COMPLETED],
    "a wish that came too late": [*PAID, *SHIPPED, told.CANCEL_SUBMITTED, told.TOO_LATE, told.COMPLETED],
    "a deadline that passed too late": [*PAID, *SHIPPED, told.TOO_LATE, told.COMPLETED],
    "a wish for an order that never came": [told.CANCEL_SUBMITTED],
    "waived": [
        *(*BEGUN, told.CANCEL_SUBMITTED, told.DISPATCH_CANCELLED, told.waived(), *RESERVED, *RELEASED),
        *(told.released("customer"), told.cancelled("customer")),
    ],
    "out of stock": [
        *(*BEGUN, told.A_RESERVED, told.B_REFUSED, told.A_RELEASE, told.A_RELEASED),
        *(told.REJECTED, told.cancelled("out_of_stock")),
    ],
    "uncertain": [
        *(*BEGUN, *RESERVED, told.CHARGE, told.UNCERTAIN, told.VOID, told.VOIDED),
        *(*RELEASED, told.released("payment_uncertain"), told.cancelled("payment_uncertain", 750)),
    ],
    "undeliverable": [*UNDELIVERABLE, told.cancelled("undeliverable", 750)],
    "confirmed later": [*BEGUN, *RESERVED, told.CHARGE, told.CONFIRMED, *ACCEPTED, *SHIPPED, told.COMPLETED],
    "cancelled": [
        *(*BEGUN, told.CANCEL_SUBMITTED, told.CANCEL_REQUESTED, *RESERVED, told.CHARGE, told.DISPATCH_CANCELLED),
        *(told.TAKEN, told.refund("customer"), told.refunded("customer"), *RELEASED),
        *(told.released("customer"), told.cancelled("customer", 750)),
    ],
}


def after(story: list[Event]) -> tuple[InvariantChecker, set[str]]:
    watch = InvariantChecker(shop.invariants)
    broken = {each.invariant.name for event in story for each in watch.emitted(event, Meta("id"))}
    return watch, broken


def outside(charges: int, taken: int, returned: int, booked: int) -> ExternalStates:
    return {accounts: {"1": Account(charges, taken, returned)}, parcels: {"1": Parcels(booked)}}


@pytest.mark.parametrize("story", LAWFUL.values(), ids=LAWFUL)
def test_a_lawful_course_breaks_no_invariant(story: list[Event]) -> None:
    watch, broken = after(story)
    assert broken == set()
    is_whole, is_placed = told.COMPLETED in story, told.PLACED in story
    taken = 750 * (told.TAKEN in story or told.VOIDED in story)
    returned = taken * (not is_whole)
    reason = "" if is_whole else "some"
    order = Order(ended_at=told.ORDERED_AT, reason=reason, taken_cents=taken, refunded_cents=returned)
    watch.changed(orders, "1", order if is_placed else Order())
    for sku, gone in (("A", 2 * is_whole), ("B", 1 * is_whole)):
        if is_placed:
            watch.changed(shelves, sku, Shelf(on_hand=9 - gone, shipped=gone))
    known = watch.rest(outside(int(taken > 0), taken, returned, int(is_whole)))
    assert {violation.invariant.name for violation in known} == set()


def without(story: list[Event], *left_out: Event) -> list[Event]:
    return [event for event in story if event not in left_out]


def told_after(story: list[Event], event: Event, *more: Event) -> list[Event]:
    at = story.index(event) + 1
    return [*story[:at], *more, *story[at:]]


def with_one(story: list[Event], replaced: Event, by: Event) -> list[Event]:
    return [by if event == replaced else event for event in story]


COMPLETED, CANCELLED, WISHED = LAWFUL["completed"], LAWFUL["undeliverable"], LAWFUL["cancelled"]
A_LITTLE, ALL = ({"quantity": units} for units in (1, 3))
WRONG: list[tuple[str, str, list[Event]]] = [
    ("steps_happen_once", "a line is answered twice", [*PAID, told.B_REFUSED]),
    ("steps_happen_once", "a charge is answered twice", [*PAID, told.DECLINED]),
    ("steps_happen_once", "a charge is void and refused", [*LAWFUL["uncertain"][:-1], told.DECLINED]),
    ("orders_end_once", "both ends", [*COMPLETED, told.cancelled("customer")]),
    (
        "completed_orders_are_whole",
        "units stay",
        with_one(COMPLETED, told.A_SHIPPED, told.A_SHIPPED.model_copy(update=A_LITTLE)),
    ),
    (
        "completed_orders_are_whole",
        "a line stays",
        with_one(without(COMPLETED, told.B_SHIPPED), told.A_SHIPPED, told.A_SHIPPED.model_copy(update=ALL)),
    ),
    ("completed_orders_are_whole", "the money is back", [*PAID, *SHIPPED, *REPAID, told.COMPLETED]),
    ("completed_orders_are_whole", "the carrier was not asked", without(COMPLETED, told.DISPATCHED)),
    ("completed_orders_are_whole", "a line goes back", [*PAID, *SHIPPED, told.A_RELEASE, told.COMPLETED]),
    (
        "cancelled_orders_leave_nothing",
        "a line was not answered",
        [*BEGUN, told.A_RESERVED, told.A_RELEASE, told.A_RELEASED, told.REJECTED, told.cancelled("out_of_stock")],
    ),
    (
        "cancelled_orders_leave_nothing",
        "units stay set aside",
        with_one(CANCELLED, told.A_RELEASED, told.A_RELEASED.model_copy(update=A_LITTLE)),
    ),
    (
        "cancelled_orders_leave_nothing",
        "a line stays set aside",
        with_one(without(CANCELLED, told.B_RELEASED), told.A_RELEASED, told.A_RELEASED.model_copy(update=ALL)),
    ),
    (
        "cancelled_orders_leave_nothing",
        "units have left",
        [*UNDELIVERABLE, told.A_SHIPPED, told.cancelled("undeliverable", 750)],
    ),
    (
        "cancelled_orders_leave_nothing",
        "the parcel has left",
        [*UNDELIVERABLE, told.DISPATCHED, told.cancelled("undeliverable", 750)],
    ),
    ("units_are_conserved", "units that were never received are set aside", [told.A_RESERVED]),
    (
        "units_are_conserved",
        "units are sold twice",
        [StockReceived(sku="A", quantity=2), told.A_RESERVED, told.A_SHIPPED, told.A_RESERVED],
    ),
]


@pytest.mark.parametrize(("invariant", "_what", "story"), WRONG)
def test_a_wrong_course_breaks_an_invariant(invariant: str, _what: str, story: list[Event]) -> None:
    assert invariant in after(story)[1]


def broken_at_rest(story: list[Event]) -> set[str]:
    watch, broken = after(story)
    reason = story[-1].reason if isinstance(story[-1], OrderCancelled) else ""
    taken = sum(event.amount_cents for event in story if event == told.TAKEN)
    known = watch.changed(orders, "1", Order(reason=reason, ended_at=told.ORDERED_AT, taken_cents=taken))
    known += watch.rest(outside(1, 0, 0, 0))
    return broken | {violation.invariant.name for violation in known}


WRONG_AT_REST: list[tuple[str, list[Event]]] = [
    ("steps_happen_once", [*COMPLETED, told.DISPATCHED]),
    ("steps_happen_once", [*WISHED[:-1], told.refunded("customer"), WISHED[-1], told.A_RELEASED]),
    ("orders_end_once", [*COMPLETED, told.COMPLETED]),
    ("money_is_conserved", [*WISHED[:-1], told.refunded("customer"), WISHED[-1]]),
    ("money_is_conserved", without(WISHED, told.TAKEN)),
    ("charges_follow_stock", without(COMPLETED, told.RESERVED)),
    ("charges_follow_stock", [*WISHED[:-1], told.waived(), WISHED[-1]]),
    ("accepted_charges_are_confirmed", told_after(COMPLETED, told.CHARGE, told.ACCEPTED)),
    ("accepted_bookings_are_collected", told_after(COMPLETED, told.DISPATCH, told.BOOKING_ACCEPTED)),
    ("cancelled_parcels_stay", [*WISHED[:-1], told.DISPATCH, WISHED[-1]]),
    ("completed_orders_are_whole", without(COMPLETED, told.B_SHIPPED)),
    ("completed_orders_are_whole", without(COMPLETED, told.TAKEN)),
    ("cancelled_orders_leave_nothing", without(WISHED, told.B_RELEASED)),
    ("cancelled_orders_leave_nothing", without(WISHED, told.refunded("customer"))),
    ("cancelled_orders_leave_nothing", [*WISHED[:-1], told.cancelled("magic", 750)]),
    ("cancelled_orders_leave_nothing", [*WISHED[:-1], told.cancelled("customer", 1)]),
    ("submitted_orders_are_placed", [told.SUBMITTED]),
    ("orders_come_to_an_end", WISHED[:-1]),
    ("wishes_are_answered", [told.CANCEL_SUBMITTED, *COMPLETED]),
    ("wishes_are_answered", [CancelRefused(order_id="1", reason="late"), told.TOO_LATE, *COMPLETED]),
    ("customers_are_told_the_truth", [*COMPLETED[:-1], told.COMPLETED, told.refunded("x")]),
    ("units_are_conserved", COMPLETED[1:]),
    ("units_are_conserved", [told.A_RELEASED, *COMPLETED]),
    ("nothing_stays_set_aside", without(WISHED, told.A_RELEASED)),
    ("the_gateway_agrees", COMPLETED),
    ("the_carrier_agrees", COMPLETED),
]


@pytest.mark.parametrize(("invariant", "story"), WRONG_AT_REST)
def test_a_course_that_ends_wrong_breaks_an_invariant_by_its_end(invariant: str, story: list[Event]) -> None:
    assert invariant in broken_at_rest(story)


def test_shelves_that_differ_from_the_log_break_a_law() -> None:
    watch = InvariantChecker(shop.invariants)
    for event in BEGUN[:2]:
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
    assert {invariant.name for invariant in shop.invariants} == {
        name for name, *_ in [*WRONG, *WRONG_AT_REST]
    } | about_shelves | {name for name, *_ in LEFT}


@pytest.mark.parametrize(
    ("invariant", "order", "facts"),
    [
        (
            "customers_are_told_the_truth",
            Order(opened_at=told.ORDERED_AT, stock=Stock.SHIPPED, money=Money.TAKEN, taken_cents=750),
            outside(1, 750, 0, 1),
        ),
        ("the_gateway_agrees", Order(ended_at=told.ORDERED_AT, taken_cents=750), outside(2, 750, 0, 1)),
    ],
    ids=["an order that is not said to have ended", "two charges of one sum"],
)
def test_what_others_say_of_a_completed_order_is_judged(invariant: str, order: Order, facts: ExternalStates) -> None:
    watch, _ = after(COMPLETED)
    watch.changed(orders, "1", order)
    assert invariant in {violation.invariant.name for violation in watch.rest(facts)}


@pytest.mark.parametrize(
    ("decider", "state"),
    [
        (reservations, Reservation(asked=2, closed_at=told.ORDERED_AT)),
        (payments, Payment(called_off="customer", ended_at=told.ORDERED_AT)),
        (shipments, Shipment(cancel_waits=True, ended_at=told.ORDERED_AT)),
    ],
)
def test_what_has_a_day_on_which_it_is_forgotten_may_stay_until_then(decider: Decider[Any], state: Any) -> None:
    watch = InvariantChecker(shop.invariants)
    watch.changed(decider, "1", state)
    assert watch.rest() == []
