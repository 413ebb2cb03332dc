"""Any two things at once: each pair of events that can meet in a decider, in both orders."""

from typing import Any, NamedTuple

import pytest

from eventlib.model.decider import Decider
from eventlib.model.event import Event
from eventlib.testing import given
from services.dispatch.decider import shipments
from services.dispatch.events import CancelRefused
from services.order.decider import orders
from services.payment.decider import payments
from services.stock.reservation import reservations
from tests.unit.services.telling import (
    A_RELEASE,
    A_RELEASED,
    A_REQUESTED,
    A_RESERVED,
    B_REFUSED,
    B_RELEASE,
    B_REQUESTED,
    B_RESERVED,
    CANCEL_REQUESTED,
    CANCEL_SUBMITTED,
    CHARGE,
    COMPLETED,
    DECLINED,
    DISPATCH,
    DISPATCH_CANCELLED,
    DISPATCHED,
    PLACED,
    REJECTED,
    RESERVED,
    STOCK_SHIPPED,
    SUBMITTED,
    TAKEN,
    TOO_LATE,
    UNCERTAIN,
    UNDELIVERABLE,
    VOID,
    VOIDED,
    cancelled,
    refund,
    refunded,
    released,
    waived,
)


class Collision(NamedTuple):
    """Two events after a history, and all that is said when the one or the other comes first."""

    decider: Decider[Any]
    history: list[Event]
    one: Event
    other: Event
    one_first: list[Event]
    other_first: list[Event]


ASKED: list[Event] = [PLACED, A_RESERVED]
CHARGING: list[Event] = [RESERVED, CHARGE]
BOOKED: list[Event] = [TAKEN, DISPATCH]
OPEN: list[Event] = [SUBMITTED, PLACED]
BOTH_BACK: list[Event] = [A_RELEASE, B_RELEASE]
SHIPPED_UNPAID: list[Event] = [*OPEN, STOCK_SHIPPED]
REFUSED_CANCELLED = CancelRefused(order_id="1", reason="cancelled")
REFUSED_COMPLETED = CancelRefused(order_id="1", reason="completed")

PAYMENT = [
    Collision(payments, [], DISPATCH_CANCELLED, RESERVED, [waived()], [CHARGE]),
    Collision(payments, CHARGING, DISPATCH_CANCELLED, TAKEN, [refund("customer")], [refund("customer")]),
    Collision(payments, CHARGING, DISPATCH_CANCELLED, DECLINED, [], []),
    Collision(payments, CHARGING, DISPATCH_CANCELLED, UNCERTAIN, [VOID], [VOID]),
    Collision(payments, [*CHARGING, UNCERTAIN, VOID], DISPATCH_CANCELLED, VOIDED, [], []),
    Collision(payments, CHARGING, UNDELIVERABLE, TAKEN, [refund("undeliverable")], [refund("undeliverable")]),
    Collision(payments, [], DISPATCH_CANCELLED, cancelled("out_of_stock"), [waived()], [waived()]),
]
RESERVATION = [
    Collision(reservations, [], DISPATCH_CANCELLED, PLACED, [released("customer")], [A_REQUESTED, B_REQUESTED]),
    Collision(reservations, ASKED, DISPATCH_CANCELLED, B_RESERVED, BOTH_BACK, [RESERVED, *BOTH_BACK]),
    Collision(reservations, ASKED, DISPATCH_CANCELLED, B_REFUSED, [A_RELEASE], [A_RELEASE]),
    Collision(reservations, [*ASKED, B_REFUSED, A_RELEASE], DISPATCH_CANCELLED, A_RELEASED, [REJECTED], [REJECTED]),
    Collision(reservations, [PLACED], A_RESERVED, B_REFUSED, [A_RELEASE], [A_RELEASE]),
    Collision(reservations, [*ASKED, B_RESERVED], DISPATCH_CANCELLED, DECLINED, BOTH_BACK, BOTH_BACK),
    Collision(reservations, [*ASKED, B_RESERVED], DISPATCH_CANCELLED, UNCERTAIN, BOTH_BACK, BOTH_BACK),
]
SHIPMENT = [
    Collision(shipments, [], CANCEL_REQUESTED, TAKEN, [DISPATCH_CANCELLED], [DISPATCH]),
    Collision(shipments, BOOKED, CANCEL_REQUESTED, DISPATCHED, [TOO_LATE], [TOO_LATE]),
    Collision(shipments, BOOKED, CANCEL_REQUESTED, UNDELIVERABLE, [], []),
]
ORDER = [
    Collision(orders, [], CANCEL_SUBMITTED, SUBMITTED, [PLACED, CANCEL_REQUESTED], [PLACED, CANCEL_REQUESTED]),
    Collision(
        orders,
        OPEN,
        CANCEL_SUBMITTED,
        REJECTED,
        [CANCEL_REQUESTED],
        [cancelled("out_of_stock"), REFUSED_CANCELLED],
    ),
    Collision(
        orders,
        [*OPEN, CANCEL_REQUESTED],
        DISPATCH_CANCELLED,
        REJECTED,
        [cancelled("customer")],
        [cancelled("out_of_stock")],
    ),
    Collision(orders, OPEN, CANCEL_SUBMITTED, DECLINED, [CANCEL_REQUESTED], []),
    Collision(orders, OPEN, CANCEL_SUBMITTED, UNDELIVERABLE, [CANCEL_REQUESTED], []),
    Collision(
        orders,
        SHIPPED_UNPAID,
        CANCEL_SUBMITTED,
        TAKEN,
        [CANCEL_REQUESTED, COMPLETED],
        [COMPLETED, REFUSED_COMPLETED],
    ),
    Collision(orders, [*OPEN, CANCEL_REQUESTED], CANCEL_SUBMITTED, TOO_LATE, [], [TOO_LATE]),
    Collision(orders, OPEN, STOCK_SHIPPED, TAKEN, [COMPLETED], [COMPLETED]),
    Collision(orders, OPEN, DISPATCH_CANCELLED, REJECTED, [cancelled("customer")], [cancelled("out_of_stock")]),
    Collision(orders, OPEN, waived(), REJECTED, [cancelled("customer")], [cancelled("out_of_stock")]),
    Collision(orders, OPEN, released("declined"), DECLINED, [cancelled("declined")], [cancelled("declined")]),
    Collision(
        orders,
        [*OPEN, TAKEN],
        released("undeliverable"),
        refunded("undeliverable"),
        [cancelled("undeliverable", 750)],
        [cancelled("undeliverable", 750)],
    ),
    Collision(
        orders,
        [*OPEN, UNCERTAIN],
        released("payment_uncertain"),
        VOIDED,
        [cancelled("payment_uncertain", 750)],
        [cancelled("payment_uncertain", 750)],
    ),
]


def _title(collision: Collision) -> str:
    return f"{type(collision.one).__name__}-{type(collision.other).__name__}"


@pytest.mark.parametrize("collision", [*PAYMENT, *RESERVATION, *SHIPMENT, *ORDER], ids=_title)
def test_two_at_once(collision: Collision) -> None:
    before = given(collision.decider, *collision.history)
    before.when(collision.one, collision.other).then(*collision.one_first)
    before.when(collision.other, collision.one).then(*collision.other_first)


def test_a_customer_cancels_an_order_that_is_overdue() -> None:
    late = given(orders, *OPEN).when_passed("overdue_at")
    late.when(CANCEL_SUBMITTED).then()


def test_an_order_becomes_overdue_that_a_customer_has_cancelled() -> None:
    cancelling = given(orders, *OPEN).when(CANCEL_SUBMITTED).then(CANCEL_REQUESTED)
    assert orders.due(cancelling.state) == {}
