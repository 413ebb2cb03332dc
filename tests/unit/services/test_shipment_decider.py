"""Dispatch: the carrier is asked at most once; a wish to cancel may come too late, and a callback early, late, twice, or never."""

import pytest

from eventlib.model.event import Event
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.dispatch.decider import COLLECT_WITHIN, KEPT, shipments
from services.dispatch.events import ParcelCollected, ParcelRefused
from services.dispatch.state import Stage
from services.order.decider import LONGEST, orders
from services.order.events import OrderCancelRequested
from services.order.state import Parcel, Status
from tests.unit.services.telling import (
    BOOKING_ACCEPTED,
    CANCEL_REQUESTED,
    CANCEL_SUBMITTED,
    COLLECTED,
    COMPLETED,
    DECLINED,
    DISPATCH,
    DISPATCH_CANCELLED,
    DISPATCH_UNCERTAIN,
    DISPATCHED,
    NOT_COLLECTED,
    PLACED,
    RECALL,
    RESERVED,
    TAKEN,
    TOO_LATE,
    UNCERTAIN,
    UNDELIVERABLE,
    Course,
    cancelled,
    released,
)

BOOKING = (TAKEN, DISPATCH)
WISH_OVERDUE = OrderCancelRequested(order_id="1", reason="overdue")
COURSES = {
    "a paid order is dispatched": Course((), TAKEN, [DISPATCH], {"stage": Stage.ASKED}),
    "an order is on its way": Course(BOOKING, DISPATCHED, [], {"stage": Stage.DISPATCHED}),
    "an undeliverable order is left to the others": Course(BOOKING, UNDELIVERABLE, [], {"stage": Stage.FAILED}),
    "a carrier that does not answer is asked to cancel, under the same key": Course(
        BOOKING, DISPATCH_UNCERTAIN, [RECALL], {"stage": Stage.RECALLING}
    ),
    "a wish that is granted carries its reason on": Course(
        (), WISH_OVERDUE, [DISPATCH_CANCELLED.model_copy(update={"reason": "overdue"})]
    ),
    "an answer for a forgotten order begins nothing": Course((), BOOKING_ACCEPTED, [], {"accepted_at": None}),
    "a callback of another booking dispatches nothing": Course(
        (*BOOKING, BOOKING_ACCEPTED),
        ParcelCollected(order_id="1", booking_key="another", tracking="P-2"),
        [],
        {"stage": Stage.ASKED, "tracking": ""},
    ),
    "a callback of another booking refuses nothing": Course(
        (*BOOKING, BOOKING_ACCEPTED),
        ParcelRefused(order_id="1", booking_key="another", reason="undeliverable"),
        [],
        {"stage": Stage.ASKED},
    ),
}


@pytest.mark.parametrize("fact", COURSES)
def test_one_event_leads_to(fact: str) -> None:
    COURSES[fact].check(shipments)


def test_a_wish_while_the_booking_is_recalled_waits_for_the_answer() -> None:
    recalling = given(shipments, TAKEN, DISPATCH, DISPATCH_UNCERTAIN, RECALL).when(CANCEL_REQUESTED).then()
    recalling.when(DISPATCHED).then(TOO_LATE)
    recalling.when(UNDELIVERABLE).then()


def test_a_shipment_is_remembered_until_its_order_has_ended() -> None:
    gone = given(shipments, TAKEN, DISPATCH, DISPATCHED)
    assert shipments.due(gone.state) == {}
    for end in (COMPLETED, cancelled("customer")):
        assert shipments.due(gone.when(end).then().state) == {"forget": DEFAULT_TIME + KEPT}


def test_a_wish_that_was_refused_does_not_wait_any_more() -> None:
    waits = given(shipments, TAKEN, DISPATCH, CANCEL_REQUESTED).then_state(cancel_waits=True)
    refused = waits.when(DISPATCHED).then(TOO_LATE).then_state(cancel_waits=False, stage=Stage.DISPATCHED)
    refused.when(DISPATCHED).then()


UNCOLLECTED = RECALL.model_copy(update={"reason": "parcel_uncollected"})
asked = given(shipments, TAKEN, DISPATCH)
waiting = given(shipments, TAKEN, DISPATCH, BOOKING_ACCEPTED)


def test_an_order_is_dispatched_when_the_answer_and_its_callback_are_there_in_either_order() -> None:
    asked.when(BOOKING_ACCEPTED).then().when(COLLECTED).then(DISPATCHED).then_state(stage=Stage.DISPATCHED)
    asked.when(COLLECTED).then().when(BOOKING_ACCEPTED).then(DISPATCHED).then_state(stage=Stage.DISPATCHED)


def test_a_callback_that_comes_twice_dispatches_once() -> None:
    waiting.when(COLLECTED).then(DISPATCHED).when(COLLECTED).then().when(NOT_COLLECTED).then()


@pytest.mark.parametrize("history", [(DISPATCH,), (DISPATCH, BOOKING_ACCEPTED)])
def test_a_parcel_that_is_refused_fails_before_and_after_the_answer(history: tuple[Event, ...]) -> None:
    failed = given(shipments, TAKEN, *history).when(NOT_COLLECTED).then(UNDELIVERABLE)
    failed.when(BOOKING_ACCEPTED).then().when(COLLECTED).then().then_state(stage=Stage.FAILED)


def test_a_booking_that_has_failed_is_not_recalled_when_its_own_answer_is_lost() -> None:
    asked.when(NOT_COLLECTED).then(UNDELIVERABLE).when(DISPATCH_UNCERTAIN).then().then_state(stage=Stage.FAILED)


def test_a_parcel_that_is_not_fetched_in_time_is_recalled_and_later_callbacks_are_left_to_the_recall() -> None:
    assert shipments.due(waiting.state) == {"collected_by": DEFAULT_TIME + COLLECT_WITHIN}
    late = waiting.when_passed("collected_by").then(UNCOLLECTED).then_state(stage=Stage.RECALLING)
    late.when(COLLECTED).then().when(NOT_COLLECTED).then().when(DISPATCHED).then().then_state(stage=Stage.DISPATCHED)


CANCELLED = RECALL.model_copy(update={"reason": "customer"})
RECALLED = UNDELIVERABLE.model_copy(update={"reason": "customer"})


def test_a_wish_to_cancel_recalls_a_parcel_that_is_awaited_at_once() -> None:
    recalling = waiting.when(CANCEL_REQUESTED).then(CANCELLED).then_state(stage=Stage.RECALLING)
    assert shipments.due(recalling.state) == {}
    recalling.when(RECALLED).then().then_state(stage=Stage.FAILED)
    gone = recalling.when(COLLECTED).then().when(NOT_COLLECTED).then().when(CANCEL_REQUESTED).then()
    gone.when(DISPATCHED).then(TOO_LATE).then_state(stage=Stage.DISPATCHED)


def test_a_wish_that_comes_before_the_carriers_answer_recalls_with_it_unless_the_parcel_has_left() -> None:
    asked.when(CANCEL_REQUESTED).then().when(BOOKING_ACCEPTED).then(CANCELLED)
    asked.when(CANCEL_REQUESTED, COLLECTED).then().when(BOOKING_ACCEPTED).then(DISPATCHED).when(DISPATCHED).then(
        TOO_LATE
    )
    asked.when(CANCEL_REQUESTED, NOT_COLLECTED).then(UNDELIVERABLE).when(BOOKING_ACCEPTED).then()


def test_an_order_for_which_the_carrier_agreed_to_come_is_not_overdue_before_that() -> None:
    paid = given(orders, PLACED, RESERVED, TAKEN)
    assert orders.due(paid.state) == {"overdue_at": DEFAULT_TIME + LONGEST}
    planned = paid.when(BOOKING_ACCEPTED).then().then_state(parcel=Parcel.PLANNED, status=Status.PAID)
    assert orders.due(planned.state) == {}
    planned.when(CANCEL_SUBMITTED).then(CANCEL_REQUESTED)
    paid.when(UNDELIVERABLE, BOOKING_ACCEPTED).then().then_state(parcel=Parcel.FAILED)


def test_a_charge_that_a_callback_has_declined_stays_so_when_its_own_answer_is_lost() -> None:
    ended = given(orders, PLACED, RESERVED, DECLINED, UNCERTAIN).when(released("declined")).then(cancelled("declined"))
    ended.then_state(status=Status.CANCELLED)
