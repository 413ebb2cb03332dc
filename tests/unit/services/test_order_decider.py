"""Order: it opens, follows its parts in whatever order they are heard of, remembers what they said, and ends once."""

from datetime import timedelta
from itertools import permutations
from typing import Annotated

import pytest
from pydantic import TypeAdapter

from eventlib.model.event import Event
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.dispatch.events import CancelRefused
from services.fields import Plain
from services.order.decider import LONGEST, OVERDUE, orders, standing
from services.order.events import CancelSubmitted, OrderCancelRequested, OrderSubmitted
from services.order.state import Cancel, Money, Order, Parcel, Status, Stock
from tests.unit.services.telling import (
    CANCEL_REQUESTED,
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
    TOO_LATE,
    UNCERTAIN,
    UNDELIVERABLE,
    VOIDED,
    cancelled,
    refunded,
    released,
    waived,
)


def test_a_submitted_order_is_placed_with_its_total() -> None:
    opened = given(orders).when(SUBMITTED).then(PLACED)
    opened.then_state(status=Status.PLACED, amount_cents=750, line_count=2, opened_at=DEFAULT_TIME)


def test_an_order_without_a_time_of_its_own_is_placed_now() -> None:
    here = SUBMITTED.model_copy(update={"placed_at": None})
    given(orders).when(here).then(PLACED.model_copy(update={"placed_at": DEFAULT_TIME}))


def test_an_order_that_is_submitted_again_is_not_placed_again() -> None:
    given(orders, SUBMITTED, PLACED).when(SUBMITTED).then()


FORWARD: list[Event] = [RESERVED, TAKEN, DISPATCHED, STOCK_SHIPPED]


def test_the_status_follows_the_order_forward() -> None:
    order, seen = given(orders, SUBMITTED, PLACED), list[str]()
    for event in FORWARD:
        order = order.when(event)
        seen.append(order.state.status)
    assert seen == ["reserved", "paid", "dispatched", "completed"]
    order.then(COMPLETED)


@pytest.mark.parametrize("events", list(permutations(FORWARD)))
def test_an_order_completes_once_in_whatever_order_its_parts_are_heard_of(events: tuple[Event, ...]) -> None:
    if events.index(RESERVED) < events.index(STOCK_SHIPPED):  # one topic keeps its order
        given(orders, SUBMITTED, PLACED).when(*events).then(COMPLETED).then_state(status=Status.COMPLETED)


CALLED_OFF: list[tuple[str, list[Event], int]] = [
    ("out_of_stock", [REJECTED], 0),
    ("declined", [DECLINED, released("declined")], 0),
    ("payment_uncertain", [UNCERTAIN, VOIDED, released("payment_uncertain")], 750),
    ("undeliverable", [UNDELIVERABLE, refunded("undeliverable"), released("undeliverable")], 750),
    ("customer", [DISPATCH_CANCELLED, waived(), released("customer")], 0),
    ("customer", [DISPATCH_CANCELLED, refunded("customer"), released("customer")], 750),
    ("overdue", [waived("overdue"), released("overdue")], 0),
]


@pytest.mark.parametrize(("reason", "events", "refunded_cents"), CALLED_OFF)
def test_an_order_is_cancelled_when_every_part_has_closed(
    reason: str, events: list[Event], refunded_cents: int
) -> None:
    order = given(orders, SUBMITTED, PLACED)
    for event in events[:-1]:
        order = order.when(event).then().then_state(status=Status.CANCELLING)
    order.when(events[-1]).then(cancelled(reason, refunded_cents)).then_state(status=Status.CANCELLED)


@pytest.mark.parametrize(("reason", "events", "refunded_cents"), CALLED_OFF)
def test_stock_may_be_heard_of_first(reason: str, events: list[Event], refunded_cents: int) -> None:
    stock_first = [events[-1], *events[:-1]]
    given(orders, SUBMITTED, PLACED).when(*stock_first).then(cancelled(reason, refunded_cents))


def test_money_that_was_taken_keeps_a_released_order_open() -> None:
    given(orders, SUBMITTED, PLACED).when(TAKEN, released("customer")).then().then_state(status=Status.CANCELLING)


def test_an_ended_order_takes_late_news_in_silence() -> None:
    given(orders, SUBMITTED, PLACED, REJECTED, cancelled("out_of_stock")).when(DISPATCH_CANCELLED, waived()).then()


@pytest.mark.parametrize("undone", [[REJECTED], [DECLINED, released("declined")]])
def test_an_order_does_not_end_before_dispatch_has_answered_a_wish(undone: list[Event]) -> None:
    reason = "declined" if DECLINED in undone else "out_of_stock"
    waits = given(orders, SUBMITTED, PLACED).when(CANCEL_SUBMITTED, *undone).then(CANCEL_REQUESTED)
    waits.then_state(status=Status.CANCELLING).when(DISPATCH_CANCELLED).then(cancelled(reason))


def test_that_nothing_could_be_delivered_answers_a_wish_too() -> None:
    undone: list[Event] = [refunded("undeliverable"), released("undeliverable")]
    waits = given(orders, SUBMITTED, PLACED, TAKEN, CANCEL_REQUESTED).when(*undone).then()
    waits.when(UNDELIVERABLE).then(cancelled("undeliverable", 750))


def test_a_wish_to_cancel_is_passed_on_once() -> None:
    wished = given(orders, SUBMITTED, PLACED).when(CANCEL_SUBMITTED).then(CANCEL_REQUESTED)
    wished.when(CANCEL_SUBMITTED).then()


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ((RESERVED, TAKEN, STOCK_SHIPPED, COMPLETED), "completed"),
        ((REJECTED, cancelled("out_of_stock")), "cancelled"),
        ((DISPATCHED, TOO_LATE), "dispatched"),
    ],
)
def test_a_wish_that_comes_too_late_is_refused(history: tuple[Event, ...], reason: str) -> None:
    refused = CancelRefused(order_id="1", reason=reason)
    given(orders, SUBMITTED, PLACED, *history).when(CANCEL_SUBMITTED).then(refused).then_state(cancel=Cancel.REFUSED)


def test_an_order_is_overdue_after_a_day() -> None:
    late = given(orders, SUBMITTED, PLACED).when_passed("overdue_at")
    late.then(OrderCancelRequested(order_id="1", reason="overdue"))
    assert late.at == DEFAULT_TIME + LONGEST
    assert timedelta(hours=24) == LONGEST


@pytest.mark.parametrize("event", [DECLINED, CANCEL_REQUESTED, TOO_LATE, COMPLETED, cancelled("customer")])
def test_an_order_that_is_settled_otherwise_is_never_overdue(event: Event) -> None:
    given(orders, SUBMITTED, PLACED, event).then_due(overdue_at=None)
    given(orders, CANCEL_SUBMITTED).then_due(overdue_at=None)  # it was never submitted


@pytest.mark.parametrize("history", [(), (RESERVED, TAKEN, UNDELIVERABLE), (CANCEL_REQUESTED,)])
def test_an_order_that_is_still_open_after_a_day_is_late_whatever_it_waits_for(history: tuple[Event, ...]) -> None:
    """A refund that the gateway never answers has no deadline, and shows all the same."""
    status = standing(given(orders, SUBMITTED, PLACED, *history).state)
    assert status is not None
    assert not status.is_late(DEFAULT_TIME + LONGEST - timedelta(milliseconds=1))
    assert status.is_late(DEFAULT_TIME + LONGEST)
    for end in (COMPLETED, cancelled("customer")):
        ended = standing(given(orders, SUBMITTED, PLACED, *history, end).state)
        assert ended is not None
        assert not ended.is_late(DEFAULT_TIME + 2 * LONGEST)


def test_an_order_is_never_forgotten() -> None:
    assert orders.forgotten_at is None


@pytest.mark.parametrize("at", [None, "2010-12-01T08:26:00Z", "2010-12-01T09:26:00+01:00"])
def test_an_order_may_come_without_a_time(at: str | None) -> None:
    made = OrderSubmitted.model_validate(SUBMITTED.model_dump() | {"placed_at": at})
    assert made.placed_at == (at and ORDERED_AT)


def test_a_time_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset from UTC"):
        OrderSubmitted.model_validate(SUBMITTED.model_dump() | {"placed_at": "2010-12-01T08:26:00"})


def test_plain_text_stays_as_it_is_and_other_text_is_refused_with_the_character() -> None:
    plain = TypeAdapter(Annotated[str, Plain])
    assert plain.validate_python("Ä plain name") == "Ä plain name"
    with pytest.raises(ValueError, match="control character"):
        plain.validate_python("a\nb")


# --- what it remembers: nothing is lost, and what came first against it stays

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
        (DISPATCHED, "tracking", "P-1"),
        (STOCK_SHIPPED, "status", Status.DISPATCHED),
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


@pytest.mark.parametrize("part", [STOCK_SHIPPED, TAKEN])
def test_an_order_completes_once(part: Event) -> None:
    given(orders, SUBMITTED, PLACED, STOCK_SHIPPED, TAKEN, COMPLETED).when(part).then()


def test_the_reason_of_the_first_wish_stays() -> None:
    early = given(orders, CancelSubmitted(order_id="1", reason="first")).when(CANCEL_SUBMITTED)
    early.then_state(cancel_reason="first", cancel=Cancel.NONE)


OVERDUE_WISH = OrderCancelRequested(order_id="1", reason=OVERDUE)


def test_an_order_that_was_given_up_is_overdue_until_it_has_ended_and_one_of_its_customers_wish_is_not() -> None:
    status = standing(after(OVERDUE_WISH))
    assert status is not None
    assert status.is_overdue
    assert not status.has_ended
    by_customer = standing(after(OrderCancelRequested(order_id="1", reason="customer")))
    assert by_customer is not None
    assert not by_customer.is_overdue
    ended = standing(after(OVERDUE_WISH, waived(OVERDUE), released(OVERDUE), cancelled(OVERDUE)))
    assert ended is not None
    assert not ended.is_overdue
    assert ended.has_ended
