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
    Course,
    released,
)

FULL = StockReceived(sku="A", quantity=5)


SHELVES = {
    "an empty shelf refuses": Course((), B_REQUESTED, [B_REFUSED]),
    "a full shelf sets units aside": Course(
        [FULL], A_REQUESTED, [A_RESERVED], {"on_hand": 3, "reserved": 2, "shipped": 0}
    ),
    "a shelf gives its last units": Course(
        [StockReceived(sku="A", quantity=2)], A_REQUESTED, [A_RESERVED], {"on_hand": 0}
    ),
    "released units are on hand again": Course(
        [FULL, A_RESERVED], A_RELEASE, [A_RELEASED], {"on_hand": 5, "reserved": 0}
    ),
    "shipped units have left": Course([FULL, A_RESERVED], A_SHIPPED, [], {"on_hand": 3, "reserved": 0, "shipped": 2}),
}
A_REFUSED = B_REFUSED.model_copy(update={"line_no": 1, "sku": "A", "quantity": 2})
ONE_LINE = PLACED.model_copy(update={"lines": PLACED.lines[1:]})
BOTH_RESERVED = (PLACED, A_RESERVED, B_RESERVED)
RESERVATIONS = {
    "every line asks its shelf": Course((), PLACED, [A_REQUESTED, B_REQUESTED]),
    "where every line is refused nothing comes back": Course((PLACED, B_REFUSED), A_REFUSED, [REJECTED]),
    "an order of one line is rejected with that line": Course([ONE_LINE], B_REFUSED, [REJECTED]),
    "a dispatched order leaves its shelves": Course(BOTH_RESERVED, DISPATCHED, [A_SHIPPED, B_SHIPPED, STOCK_SHIPPED]),
    "a release for a forgotten order emits nothing": Course((), A_RELEASED, []),
    "a refusal for a forgotten order emits nothing": Course((), B_REFUSED, []),
}


@pytest.mark.parametrize("fact", SHELVES)
def test_one_event_at_a_shelf_leads_to(fact: str) -> None:
    SHELVES[fact].check(shelves)


@pytest.mark.parametrize("fact", RESERVATIONS)
def test_one_event_of_a_reservation_leads_to(fact: str) -> None:
    RESERVATIONS[fact].check(reservations)


def test_a_delivery_reaches_its_shelves_once() -> None:
    arrived = DeliverySubmitted(
        delivery_id="D", lines=(DeliveryLine(sku="A", quantity=5), DeliveryLine(sku="B", quantity=1))
    )
    done = given(deliveries).when(arrived).then(FULL, StockReceived(sku="B", quantity=1))
    done.when(arrived).then()


def test_stock_is_reserved_when_every_line_is() -> None:
    given(reservations, PLACED).when(A_RESERVED).then().when(B_RESERVED).then(RESERVED)


def test_one_refusal_releases_what_is_held_and_only_then_rejects() -> None:
    refused = given(reservations, PLACED, A_RESERVED).when(B_REFUSED).then(A_RELEASE)
    refused.when(A_RELEASED).then(REJECTED)


@pytest.mark.parametrize("failure", [DECLINED, UNCERTAIN, UNDELIVERABLE, DISPATCH_CANCELLED])
def test_a_reserved_order_that_is_called_off_is_released(failure: Event) -> None:
    off = given(reservations, PLACED, A_RESERVED, B_RESERVED).when(failure).then(A_RELEASE, B_RELEASE)
    off.when(B_RELEASED).then().when(A_RELEASED).then(released(str(getattr(failure, "reason", ""))))


def test_lines_that_are_still_being_answered_are_released_as_they_come() -> None:
    off = given(reservations, PLACED, A_RESERVED).when(DISPATCH_CANCELLED).then(A_RELEASE)
    off.when(A_RELEASED).then().when(B_RESERVED).then(B_RELEASE).when(B_RELEASED).then(released("customer"))


def test_a_second_call_off_changes_nothing() -> None:
    off = given(reservations, PLACED, A_RESERVED, B_RESERVED).when(DECLINED).then(A_RELEASE, B_RELEASE)
    off.when(DISPATCH_CANCELLED).then().when(A_RELEASED, B_RELEASED).then(released("declined"))


def test_a_closed_reservation_is_small_and_forgotten_after_a_day() -> None:
    closed = given(reservations, PLACED, A_RESERVED, B_RESERVED).when(DISPATCHED)
    closed.then_state(held=(), closed_at=DEFAULT_TIME).then_due(forget=DEFAULT_TIME + KEPT)
    assert timedelta(days=1) == KEPT


def test_a_reservation_is_forgotten_once_it_is_closed_also_where_its_order_was_forgotten_before() -> None:
    given(reservations, PLACED, A_RESERVED).then_due(forget=None)
    given(reservations).when(DISPATCH_CANCELLED).then().then_due(forget=DEFAULT_TIME + KEPT)


@pytest.mark.parametrize(
    "history",
    [
        (PLACED, A_RESERVED, B_REFUSED, A_RELEASED, REJECTED),
        (PLACED, A_RESERVED, B_RESERVED, DECLINED, A_RELEASE, B_RELEASE, A_RELEASED, B_RELEASED, released("declined")),
    ],
)
def test_a_reservation_that_came_to_nothing_is_closed_once_and_forgotten(history: tuple[Event, ...]) -> None:
    closed = given(reservations, *history).then_state(held=(), closed_at=DEFAULT_TIME)
    closed.then_due(forget=DEFAULT_TIME + KEPT)
    closed.when(B_REFUSED).then()
