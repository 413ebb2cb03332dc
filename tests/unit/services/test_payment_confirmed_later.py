"""Payment with a gateway that answers later: its callback comes early, late, twice, or never, and for cancelled orders."""

import pytest

from eventlib.model.event import Event
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.payment.decider import CONFIRM_WITHIN, payments
from services.payment.events import ChargeConfirmed, ChargeDeclined
from services.payment.state import Stage
from tests.unit.services.telling import (
    ACCEPTED,
    CHARGE,
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
    refund,
)

UNCONFIRMED = VOID.model_copy(update={"reason": "payment_unconfirmed"})
OF_ANOTHER: list[Event] = [
    ChargeConfirmed(order_id="1", charge_key="another"),
    ChargeDeclined(order_id="1", charge_key="another", reason="declined"),
]
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


@pytest.mark.parametrize("report", OF_ANOTHER)
def test_a_callback_of_another_charge_changes_nothing(report: Event) -> None:
    waiting.when(report).then().then_state(stage=Stage.CHARGING, is_confirmed=False)


def test_a_charge_that_is_not_confirmed_in_time_is_voided_and_later_callbacks_are_left_to_the_void() -> None:
    assert payments.due(waiting.state) == {"confirmed_by": DEFAULT_TIME + CONFIRM_WITHIN}
    late = waiting.when_passed("confirmed_by").then(UNCONFIRMED).then_state(stage=Stage.VOIDING)
    late.when(CONFIRMED).then().when(NOT_CONFIRMED).then().when(VOIDED).then().then_state(stage=Stage.VOIDED)


def test_a_charge_whose_answer_is_lost_is_voided_also_when_it_was_confirmed() -> None:
    asked.when(CONFIRMED).then().when(UNCERTAIN).then(VOID)


def test_an_answer_that_comes_when_the_order_is_forgotten_begins_nothing() -> None:
    given(payments).when(ACCEPTED).then().then_state(accepted_at=None, country="")


@pytest.mark.parametrize("end", [TAKEN, DECLINED])
def test_a_charge_that_has_its_end_is_not_voided(end: Event) -> None:
    given(payments, RESERVED, CHARGE, ACCEPTED, end).when(UNCERTAIN).then()


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
