"""Payment: charge once, keep it, or give it back; a callback of the gateway comes early, late, twice, or never."""

import pytest

from eventlib.model.event import Event
from eventlib.model.identity import derived_id
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.payment.decider import CONFIRM_WITHIN, KEPT, payments
from services.payment.events import ChargeConfirmed, ChargeDeclined
from services.payment.state import Stage
from tests.unit.services.telling import (
    ACCEPTED,
    CHARGE,
    CHARGE_KEY,
    COMPLETED,
    CONFIRMED,
    DECLINED,
    DISPATCH_CANCELLED,
    NOT_CONFIRMED,
    RESERVED,
    TAKEN,
    UNCERTAIN,
    UNDELIVERABLE,
    VOID,
    VOIDED,
    Course,
    cancelled,
    refund,
    refunded,
)

CHARGING = (RESERVED, CHARGE)
ACCEPTED_AWAITED = (*CHARGING, ACCEPTED)
ANOTHER_CONFIRMED = ChargeConfirmed(order_id="1", charge_key="another")
ANOTHER_DECLINED = ChargeDeclined(order_id="1", charge_key="another", reason="declined")
COURSES = {
    "reserved stock is charged": Course((), RESERVED, [CHARGE], {"stage": Stage.CHARGING}),
    "money that was taken is kept": Course(CHARGING, TAKEN, [], {"stage": Stage.TAKEN}),
    "a declined charge ends the payment": Course(CHARGING, DECLINED, [], {"stage": Stage.FAILED}),
    "a failed payment needs nothing more when its order is cancelled": Course(
        (*CHARGING, DECLINED), DISPATCH_CANCELLED, []
    ),
    "nor does one that is being voided": Course((*CHARGING, UNCERTAIN, VOID), DISPATCH_CANCELLED, []),
    "nor does a voided one": Course((UNCERTAIN, VOID, VOIDED), DISPATCH_CANCELLED, []),
    "a confirmed charge whose answer is lost is voided": Course((*CHARGING, CONFIRMED), UNCERTAIN, [VOID]),
    "a charge that was taken is not voided": Course((*ACCEPTED_AWAITED, TAKEN), UNCERTAIN, []),
    "a charge that was declined is not voided": Course((*ACCEPTED_AWAITED, DECLINED), UNCERTAIN, []),
    "an answer for a forgotten order begins nothing": Course((), ACCEPTED, [], {"accepted_at": None, "country": ""}),
    "a callback of another charge confirms nothing": Course(
        ACCEPTED_AWAITED, ANOTHER_CONFIRMED, [], {"stage": Stage.CHARGING, "is_confirmed": False}
    ),
    "a callback of another charge declines nothing": Course(
        ACCEPTED_AWAITED, ANOTHER_DECLINED, [], {"stage": Stage.CHARGING}
    ),
}


@pytest.mark.parametrize("fact", COURSES)
def test_one_event_leads_to(fact: str) -> None:
    COURSES[fact].check(payments)


def test_the_charge_is_known_by_the_id_of_its_request() -> None:
    said_id = derived_id(derived_id("StockReserved", "payment", "1", 0), "payment", "1", 0)
    given(payments).when(RESERVED).then_state(charge_key=said_id)
    given(payments, RESERVED, CHARGE).then_state(charge_key=CHARGE_KEY)


def test_an_uncertain_charge_is_voided() -> None:
    unsure = given(payments, RESERVED, CHARGE).when(UNCERTAIN).then(VOID).then_state(stage=Stage.VOIDING)
    unsure.when(VOIDED).then().then_state(stage=Stage.VOIDED)


def test_a_failed_dispatch_is_refunded() -> None:
    failed = given(payments, RESERVED, CHARGE, TAKEN).when(UNDELIVERABLE).then(refund("undeliverable"))
    failed.when(refunded("undeliverable")).then().then_state(stage=Stage.REFUNDED)


@pytest.mark.parametrize(("answer", "said"), [(TAKEN, [refund("customer")]), (DECLINED, []), (UNCERTAIN, [VOID])])
def test_an_order_cancelled_while_the_gateway_is_asked_waits_for_its_answer(answer: Event, said: list[Event]) -> None:
    given(payments, RESERVED, CHARGE).when(DISPATCH_CANCELLED).then().when(answer).then(*said)


def test_a_waived_payment_is_remembered_until_its_order_has_ended() -> None:
    waiting = given(payments).when(DISPATCH_CANCELLED)
    assert payments.due(waiting.state) == {}
    ended = waiting.when(cancelled("customer")).then()
    assert payments.due(ended.state) == {"forget": DEFAULT_TIME + KEPT}


@pytest.mark.parametrize(("answer", "end"), [(TAKEN, COMPLETED), (DECLINED, cancelled("declined"))])
def test_a_payment_is_forgotten_a_day_after_its_order_has_ended(answer: Event, end: Event) -> None:
    given(payments, RESERVED, CHARGE, answer).when(end).then().then_due(forget=DEFAULT_TIME + KEPT)


def test_a_refund_carries_the_first_reason() -> None:
    called_off = given(payments, RESERVED, CHARGE).when(UNDELIVERABLE).then().when(DISPATCH_CANCELLED).then()
    called_off.when(TAKEN).then(refund("undeliverable"))


UNCONFIRMED = VOID.model_copy(update={"reason": "payment_unconfirmed"})
asked = given(payments, RESERVED, CHARGE)
waiting = given(payments, RESERVED, CHARGE, ACCEPTED)


def test_money_counts_as_taken_when_the_answer_and_its_callback_are_there_in_either_order() -> None:
    asked.when(ACCEPTED).then().when(CONFIRMED).then(TAKEN).then_state(stage=Stage.TAKEN)
    asked.when(CONFIRMED).then().when(ACCEPTED).then(TAKEN).then_state(stage=Stage.TAKEN)


def test_a_callback_that_comes_twice_takes_no_more() -> None:
    waiting.when(CONFIRMED).then(TAKEN).when(CONFIRMED).then().when(NOT_CONFIRMED).then()


@pytest.mark.parametrize("history", [(CHARGE,), (CHARGE, ACCEPTED)])
def test_a_charge_that_is_not_confirmed_fails_before_and_after_its_answer(history: tuple[Event, ...]) -> None:
    failed = given(payments, RESERVED, *history).when(NOT_CONFIRMED).then(DECLINED)
    failed.when(ACCEPTED).then().when(CONFIRMED).then().then_state(stage=Stage.FAILED)


def test_a_charge_that_is_not_confirmed_in_time_is_voided_and_later_callbacks_are_left_to_the_void() -> None:
    assert payments.due(waiting.state) == {"confirmed_by": DEFAULT_TIME + CONFIRM_WITHIN}
    late = waiting.when_passed("confirmed_by").then(UNCONFIRMED).then_state(stage=Stage.VOIDING)
    late.when(CONFIRMED).then().when(NOT_CONFIRMED).then().when(VOIDED).then().then_state(stage=Stage.VOIDED)


def test_nothing_is_awaited_of_a_gateway_that_answers_at_once() -> None:
    for history in [(RESERVED, CHARGE), (RESERVED, CHARGE, TAKEN), (RESERVED, CHARGE, ACCEPTED, TAKEN)]:
        assert payments.due(given(payments, *history).state) == {}


CANCELLED = VOID.model_copy(update={"reason": "customer"})


def test_an_order_that_is_cancelled_while_the_callback_is_awaited_is_voided_at_once() -> None:
    voiding = waiting.when(DISPATCH_CANCELLED).then(CANCELLED).then_state(stage=Stage.VOIDING)
    assert payments.due(voiding.state) == {}
    voiding.when(CONFIRMED).then().when(NOT_CONFIRMED).then().when(VOIDED).then().then_state(stage=Stage.VOIDED)


def test_an_order_that_is_cancelled_before_the_gateways_answer_is_voided_with_it() -> None:
    asked.when(DISPATCH_CANCELLED).then().when(ACCEPTED).then(CANCELLED)
    asked.when(CONFIRMED, DISPATCH_CANCELLED).then().when(ACCEPTED).then(CANCELLED)
    asked.when(NOT_CONFIRMED, DISPATCH_CANCELLED).then(DECLINED).when(ACCEPTED).then()


@pytest.mark.parametrize(("called_off", "reason"), [(DISPATCH_CANCELLED, "customer"), (UNDELIVERABLE, "undeliverable")])
def test_money_is_refunded_once_when_the_order_is_called_off_before_its_own_event_is_read(
    called_off: Event, reason: str
) -> None:
    refunding = waiting.when(CONFIRMED).then(TAKEN).when(called_off).then(refund(reason))
    refunding.when(TAKEN).then().then_state(stage=Stage.REFUNDING)
