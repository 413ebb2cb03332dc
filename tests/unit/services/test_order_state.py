"""Order remembers what its parts have said: nothing of it is lost, and what came first against it stays."""

from itertools import permutations

import pytest

from eventlib.model.event import Event
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.order.decider import OVERDUE, orders, standing
from services.order.events import CancelSubmitted, OrderCancelRequested
from services.order.state import Cancel, Money, Order, Parcel, Status, Stock
from tests.unit.services.telling import (
    CANCEL_SUBMITTED,
    COMPLETED,
    DECLINED,
    DISPATCH_CANCELLED,
    DISPATCHED,
    ORDERED_AT,
    PLACED,
    REJECTED,
    RESERVED,
    STOCK_SHIPPED,
    SUBMITTED,
    TAKEN,
    UNCERTAIN,
    UNDELIVERABLE,
    VOIDED,
    cancelled,
    refunded,
    released,
    waived,
)

AGAINST: list[Event] = [
    *(REJECTED, DECLINED, UNCERTAIN, UNDELIVERABLE, DISPATCH_CANCELLED),
    *(VOIDED.model_copy(update={"reason": "void"}), refunded("refund"), waived("waiver"), released("release")),
]
"""Every event that says why an order will not complete, each with a reason of its own."""


def after(*events: Event) -> Order:
    return given(orders, SUBMITTED, PLACED, *events).state


def test_a_placed_order_has_all_that_was_asked_for() -> None:
    assert after() == Order(
        customer_id="17850",
        country="France",
        currency="GBP",
        amount_cents=750,
        line_count=2,
        placed_at=ORDERED_AT,
        opened_at=DEFAULT_TIME,
    )


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (RESERVED, "stock", Stock.RESERVED),
        (REJECTED, "stock", Stock.REJECTED),
        (released("customer"), "stock", Stock.RELEASED),
        (STOCK_SHIPPED, "stock", Stock.SHIPPED),
        (TAKEN, "money", Money.TAKEN),
        (DECLINED, "money", Money.FAILED),
        (UNCERTAIN, "money", Money.UNCERTAIN),
        (VOIDED, "money", Money.VOIDED),
        (refunded("customer"), "money", Money.REFUNDED),
        (waived(), "money", Money.WAIVED),
        (DISPATCHED, "parcel", Parcel.DISPATCHED),
        (UNDELIVERABLE, "parcel", Parcel.FAILED),
        (DISPATCH_CANCELLED, "parcel", Parcel.CANCELLED),
    ],
)
def test_each_part_stands_as_it_was_last_heard_of(event: Event, field: str, value: str) -> None:
    assert getattr(after(event), field) == value


@pytest.mark.parametrize(("first", "second"), [*permutations(AGAINST, 2)])
def test_the_first_reason_stays_whatever_comes_after_it(first: Event, second: Event) -> None:
    assert after(first, second).reason == dict(first)["reason"]


@pytest.mark.parametrize(
    ("events", "taken_cents", "refunded_cents"),
    [([TAKEN], 750, 0), ([UNCERTAIN, VOIDED], 750, 750), ([TAKEN, refunded("customer")], 750, 750), ([waived()], 0, 0)],
)
def test_money_adds_up(events: list[Event], taken_cents: int, refunded_cents: int) -> None:
    order = after(*events)
    assert (order.taken_cents, order.refunded_cents) == (taken_cents, refunded_cents)


def test_a_parcel_can_be_followed() -> None:
    assert after(DISPATCHED).tracking == "P-1"


def test_an_order_whose_goods_have_left_is_dispatched_before_the_carrier_is_heard_of() -> None:
    assert after(RESERVED, STOCK_SHIPPED).status is Status.DISPATCHED


@pytest.mark.parametrize("parts", [*permutations([STOCK_SHIPPED, TAKEN])])
def test_an_order_completes_with_its_last_part_and_not_before(parts: tuple[Event, Event]) -> None:
    given(orders, SUBMITTED, PLACED, RESERVED).when(parts[0]).then().when(parts[1]).then(COMPLETED)


@pytest.mark.parametrize("part", [STOCK_SHIPPED, TAKEN])
def test_an_order_completes_once(part: Event) -> None:
    given(orders, SUBMITTED, PLACED, STOCK_SHIPPED, TAKEN, COMPLETED).when(part).then()


def test_the_reason_of_the_first_wish_stays() -> None:
    early = given(orders, CancelSubmitted(order_id="1", reason="first")).when(CANCEL_SUBMITTED)
    early.then_state(cancel_reason="first", cancel=Cancel.NONE)


OVERDUE_WISH = OrderCancelRequested(order_id="1", reason=OVERDUE)


def test_an_order_that_was_given_up_is_overdue_until_it_has_ended() -> None:
    status = standing(after(OVERDUE_WISH))
    assert status is not None
    assert status.is_overdue
    assert not status.has_ended
    ended = standing(after(OVERDUE_WISH, waived(OVERDUE), released(OVERDUE), cancelled(OVERDUE)))
    assert ended is not None
    assert not ended.is_overdue
    assert ended.has_ended


def test_an_order_that_its_customer_cancels_is_not_overdue() -> None:
    status = standing(after(OrderCancelRequested(order_id="1", reason="customer")))
    assert status is not None
    assert not status.is_overdue
