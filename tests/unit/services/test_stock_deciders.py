"""Stock: shelves, reservations over any number of them, and deliveries."""

from datetime import timedelta

import pytest

from eventlib.model.event import Event
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.stock.events import DeliveryLine, DeliverySubmitted, StockReceived
from services.stock.reservation import KEPT, reservations
from services.stock.shelf import deliveries, shelves
from tests.unit.services.telling import (
    A_RELEASE,
    A_RELEASED,
    A_REQUESTED,
    A_RESERVED,
    A_SHIPPED,
    B_REFUSED,
    B_RELEASE,
    B_RELEASED,
    B_REQUESTED,
    B_RESERVED,
    B_SHIPPED,
    DECLINED,
    DISPATCH_CANCELLED,
    DISPATCHED,
    PLACED,
    REJECTED,
    RESERVED,
    STOCK_SHIPPED,
    UNCERTAIN,
    UNDELIVERABLE,
    released,
)

FULL = StockReceived(sku="A", quantity=5)


def test_an_empty_shelf_refuses() -> None:
    given(shelves).when(B_REQUESTED).then(B_REFUSED)


def test_a_full_shelf_sets_units_aside() -> None:
    given(shelves, FULL).when(A_REQUESTED).then(A_RESERVED).then_state(on_hand=3, reserved=2, shipped=0)


def test_a_shelf_gives_its_last_units() -> None:
    given(shelves, StockReceived(sku="A", quantity=2)).when(A_REQUESTED).then(A_RESERVED).then_state(on_hand=0)


def test_released_units_are_on_hand_again() -> None:
    given(shelves, FULL, A_RESERVED).when(A_RELEASE).then(A_RELEASED).then_state(on_hand=5, reserved=0)


def test_shipped_units_have_left() -> None:
    given(shelves, FULL, A_RESERVED).when(A_SHIPPED).then().then_state(on_hand=3, reserved=0, shipped=2)


def test_a_delivery_reaches_its_shelves_once() -> None:
    arrived = DeliverySubmitted(
        delivery_id="D", lines=(DeliveryLine(sku="A", quantity=5), DeliveryLine(sku="B", quantity=1))
    )
    done = given(deliveries).when(arrived).then(FULL, StockReceived(sku="B", quantity=1))
    done.when(arrived).then()


def test_every_line_asks_its_shelf() -> None:
    given(reservations).when(PLACED).then(A_REQUESTED, B_REQUESTED)


def test_stock_is_reserved_when_every_line_is() -> None:
    given(reservations, PLACED).when(A_RESERVED).then().when(B_RESERVED).then(RESERVED)


def test_one_refusal_releases_what_is_held_and_only_then_rejects() -> None:
    refused = given(reservations, PLACED, A_RESERVED).when(B_REFUSED).then(A_RELEASE)
    refused.when(A_RELEASED).then(REJECTED)


def test_a_line_that_is_reserved_after_a_refusal_goes_back_at_once() -> None:
    given(reservations, PLACED, B_REFUSED).when(A_RESERVED).then(A_RELEASE).when(A_RELEASED).then(REJECTED)


def test_when_every_line_is_refused_nothing_has_to_come_back() -> None:
    a_refused = B_REFUSED.model_copy(update={"line_no": 1, "sku": "A", "quantity": 2})
    given(reservations, PLACED, B_REFUSED).when(a_refused).then(REJECTED)


@pytest.mark.parametrize("failure", [DECLINED, UNCERTAIN, UNDELIVERABLE, DISPATCH_CANCELLED])
def test_a_reserved_order_that_is_called_off_is_released(failure: Event) -> None:
    off = given(reservations, PLACED, A_RESERVED, B_RESERVED).when(failure).then(A_RELEASE, B_RELEASE)
    off.when(B_RELEASED).then().when(A_RELEASED).then(released(str(getattr(failure, "reason", ""))))


def test_an_order_that_is_called_off_before_it_was_seen_asks_no_shelf() -> None:
    given(reservations).when(DISPATCH_CANCELLED).then().when(PLACED).then(released("customer"))


def test_lines_that_are_still_being_answered_are_released_as_they_come() -> None:
    off = given(reservations, PLACED, A_RESERVED).when(DISPATCH_CANCELLED).then(A_RELEASE)
    off.when(A_RELEASED).then().when(B_RESERVED).then(B_RELEASE).when(B_RELEASED).then(released("customer"))


def test_a_dispatched_order_leaves_its_shelves() -> None:
    given(reservations, PLACED, A_RESERVED, B_RESERVED).when(DISPATCHED).then(A_SHIPPED, B_SHIPPED, STOCK_SHIPPED)


def test_a_second_call_off_changes_nothing() -> None:
    off = given(reservations, PLACED, A_RESERVED, B_RESERVED).when(DECLINED).then(A_RELEASE, B_RELEASE)
    off.when(DISPATCH_CANCELLED).then().when(A_RELEASED, B_RELEASED).then(released("declined"))


def test_a_closed_reservation_is_small_and_forgotten_after_a_day() -> None:
    closed = given(reservations, PLACED, A_RESERVED, B_RESERVED).when(DISPATCHED)
    closed.then_state(held=(), closed_at=DEFAULT_TIME)
    assert reservations.due(closed.state) == {"forget": DEFAULT_TIME + KEPT}
    assert timedelta(days=1) == KEPT


def test_an_open_reservation_is_not_forgotten() -> None:
    assert reservations.due(given(reservations, PLACED, A_RESERVED).state) == {}


def test_a_cancellation_of_a_forgotten_order_is_forgotten_too() -> None:
    late = given(reservations).when(DISPATCH_CANCELLED).then()
    assert reservations.due(late.state) == {"forget": DEFAULT_TIME + KEPT}


@pytest.mark.parametrize(
    "history",
    [
        (PLACED, A_RESERVED, B_REFUSED, A_RELEASED, REJECTED),
        (PLACED, A_RESERVED, B_RESERVED, DECLINED, A_RELEASE, B_RELEASE, A_RELEASED, B_RELEASED, released("declined")),
    ],
)
def test_a_reservation_that_came_to_nothing_is_closed_once_and_forgotten(history: tuple[Event, ...]) -> None:
    closed = given(reservations, *history).then_state(held=(), closed_at=DEFAULT_TIME)
    assert reservations.due(closed.state) == {"forget": DEFAULT_TIME + KEPT}
    closed.when(B_REFUSED).then()


def test_an_order_of_one_line_is_rejected_with_that_line() -> None:
    one = PLACED.model_copy(update={"lines": PLACED.lines[1:]})
    given(reservations, one).when(B_REFUSED).then(REJECTED)


@pytest.mark.parametrize("late", [A_RELEASED, B_REFUSED])
def test_an_answer_to_a_forgotten_order_says_nothing(late: Event) -> None:
    given(reservations).when(late).then()
