"""Dispatch: the carrier is asked at most once, and decides with Shipment whether a wish to cancel comes too late."""

from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.dispatch.decider import KEPT, shipments
from services.dispatch.state import Stage
from services.order.events import OrderCancelRequested
from tests.unit.services.telling import (
    CANCEL_REQUESTED,
    COMPLETED,
    DISPATCH,
    DISPATCH_CANCELLED,
    DISPATCH_UNCERTAIN,
    DISPATCHED,
    RECALL,
    TAKEN,
    TOO_LATE,
    UNDELIVERABLE,
    cancelled,
)


def test_a_paid_order_is_dispatched() -> None:
    given(shipments).when(TAKEN).then(DISPATCH).then_state(stage=Stage.ASKED)


def test_an_order_is_on_its_way() -> None:
    given(shipments, TAKEN, DISPATCH).when(DISPATCHED).then().then_state(stage=Stage.DISPATCHED)


def test_an_undeliverable_order_is_left_to_the_others() -> None:
    given(shipments, TAKEN, DISPATCH).when(UNDELIVERABLE).then().then_state(stage=Stage.FAILED)


def test_a_carrier_that_does_not_answer_is_asked_to_cancel_under_the_same_key() -> None:
    given(shipments, TAKEN, DISPATCH).when(DISPATCH_UNCERTAIN).then(RECALL).then_state(stage=Stage.RECALLING)


def test_a_wish_while_the_booking_is_recalled_waits_for_the_answer() -> None:
    recalling = given(shipments, TAKEN, DISPATCH, DISPATCH_UNCERTAIN, RECALL).when(CANCEL_REQUESTED).then()
    recalling.when(DISPATCHED).then(TOO_LATE)
    recalling.when(UNDELIVERABLE).then()


def test_a_wish_before_the_carrier_is_asked_is_granted() -> None:
    given(shipments).when(CANCEL_REQUESTED).then(DISPATCH_CANCELLED).when(TAKEN).then()


def test_a_wish_carries_its_reason_on() -> None:
    wish = OrderCancelRequested(order_id="1", reason="overdue")
    given(shipments).when(wish).then(DISPATCH_CANCELLED.model_copy(update={"reason": "overdue"}))


def test_a_wish_while_the_carrier_is_asked_waits_and_is_refused() -> None:
    given(shipments, TAKEN, DISPATCH).when(CANCEL_REQUESTED).then().when(DISPATCHED).then(TOO_LATE)


def test_a_wish_while_the_carrier_is_asked_is_settled_by_its_refusal() -> None:
    given(shipments, TAKEN, DISPATCH).when(CANCEL_REQUESTED).then().when(UNDELIVERABLE).then()


def test_a_wish_after_the_dispatch_is_refused() -> None:
    given(shipments, TAKEN, DISPATCH, DISPATCHED).when(CANCEL_REQUESTED).then(TOO_LATE)


def test_a_wish_after_a_failed_dispatch_changes_nothing() -> None:
    given(shipments, TAKEN, DISPATCH, UNDELIVERABLE).when(CANCEL_REQUESTED).then()


def test_a_shipment_is_remembered_until_its_order_has_ended() -> None:
    gone = given(shipments, TAKEN, DISPATCH, DISPATCHED)
    assert shipments.due(gone.state) == {}
    for end in (COMPLETED, cancelled("customer")):
        assert shipments.due(gone.when(end).then().state) == {"forget": DEFAULT_TIME + KEPT}


def test_a_wish_that_was_refused_does_not_wait_any_more() -> None:
    waits = given(shipments, TAKEN, DISPATCH, CANCEL_REQUESTED).then_state(cancel_waits=True)
    refused = waits.when(DISPATCHED).then(TOO_LATE).then_state(cancel_waits=False, stage=Stage.DISPATCHED)
    refused.when(DISPATCHED).then()
