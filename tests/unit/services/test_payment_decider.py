"""Payment: charge once, keep it, or give it back."""

import pytest

from eventlib.model.event import Event
from eventlib.model.identity import derived_id
from eventlib.testing import given
from eventlib.testing.given import DEFAULT_TIME
from services.payment.decider import KEPT, payments
from services.payment.state import Stage
from tests.unit.services.telling import (
    CHARGE,
    CHARGE_KEY,
    COMPLETED,
    DECLINED,
    DISPATCH_CANCELLED,
    RESERVED,
    TAKEN,
    UNCERTAIN,
    UNDELIVERABLE,
    VOID,
    VOIDED,
    cancelled,
    refund,
    refunded,
    waived,
)


def test_reserved_stock_is_charged() -> None:
    given(payments).when(RESERVED).then(CHARGE).then_state(stage=Stage.CHARGING)


def test_the_charge_is_known_by_the_id_of_its_request() -> None:
    said_id = derived_id(derived_id("StockReserved", "payment", "1", 0), "payment", "1", 0)
    given(payments).when(RESERVED).then_state(charge_key=said_id)
    given(payments, RESERVED, CHARGE).then_state(charge_key=CHARGE_KEY)


def test_money_that_was_taken_is_kept() -> None:
    given(payments, RESERVED, CHARGE).when(TAKEN).then().then_state(stage=Stage.TAKEN)


def test_a_declined_charge_ends_the_payment() -> None:
    given(payments, RESERVED, CHARGE).when(DECLINED).then().then_state(stage=Stage.FAILED)


def test_an_uncertain_charge_is_voided() -> None:
    unsure = given(payments, RESERVED, CHARGE).when(UNCERTAIN).then(VOID).then_state(stage=Stage.VOIDING)
    unsure.when(VOIDED).then().then_state(stage=Stage.VOIDED)


def test_a_failed_dispatch_is_refunded() -> None:
    failed = given(payments, RESERVED, CHARGE, TAKEN).when(UNDELIVERABLE).then(refund("undeliverable"))
    failed.when(refunded("undeliverable")).then().then_state(stage=Stage.REFUNDED)


def test_a_failed_dispatch_that_is_seen_before_the_money_is_refunded_when_it_lands() -> None:
    given(payments, RESERVED, CHARGE).when(UNDELIVERABLE).then().when(TAKEN).then(refund("undeliverable"))


def test_an_order_cancelled_before_its_charge_is_waived_and_never_charged() -> None:
    given(payments).when(DISPATCH_CANCELLED).then(waived()).when(RESERVED).then()


def test_a_cancelled_order_whose_money_was_taken_is_refunded() -> None:
    given(payments, RESERVED, CHARGE, TAKEN).when(DISPATCH_CANCELLED).then(refund("customer"))


@pytest.mark.parametrize(("answer", "said"), [(TAKEN, [refund("customer")]), (DECLINED, []), (UNCERTAIN, [VOID])])
def test_an_order_cancelled_while_the_gateway_is_asked_waits_for_its_answer(answer: Event, said: list[Event]) -> None:
    given(payments, RESERVED, CHARGE).when(DISPATCH_CANCELLED).then().when(answer).then(*said)


@pytest.mark.parametrize(
    "history", [(RESERVED, CHARGE, DECLINED), (RESERVED, CHARGE, UNCERTAIN, VOID), (UNCERTAIN, VOID, VOIDED)]
)
def test_an_order_cancelled_after_its_payment_failed_needs_nothing_more(history: tuple[Event, ...]) -> None:
    given(payments, *history).when(DISPATCH_CANCELLED).then()


def test_a_waived_payment_is_remembered_until_its_order_has_ended() -> None:
    waiting = given(payments).when(DISPATCH_CANCELLED)
    assert payments.due(waiting.state) == {}
    ended = waiting.when(cancelled("customer")).then()
    assert payments.due(ended.state) == {"forget": DEFAULT_TIME + KEPT}


def test_a_completed_payment_is_forgotten_after_a_day() -> None:
    ended = given(payments, RESERVED, CHARGE, TAKEN).when(COMPLETED).then()
    assert payments.due(ended.state) == {"forget": DEFAULT_TIME + KEPT}


def test_a_refund_carries_the_first_reason() -> None:
    called_off = given(payments, RESERVED, CHARGE, UNDELIVERABLE).when(DISPATCH_CANCELLED).then()
    called_off.when(TAKEN).then(refund("undeliverable"))


def test_a_cancelled_payment_is_forgotten_after_a_day() -> None:
    ended = given(payments, RESERVED, CHARGE, DECLINED).when(cancelled("declined")).then()
    assert payments.due(ended.state) == {"forget": DEFAULT_TIME + KEPT}
