"""What the gateway and the carrier answer becomes events; what they do not answer is resolved, never guessed."""

from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest
from pydantic import TypeAdapter, ValidationError

from eventlib.model.event import Event, Meta
from services.dispatch.decider import shipments
from services.dispatch.effects import dispatch, recall
from services.dispatch.events import DispatchFailed, DispatchRequested, RecallRequested
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.payment.decider import payments
from services.payment.effects import charge, refund, void
from services.payment.events import ChargeRequested, RefundRequested, VoidRequested
from services.payment.ports import Accepted, Charged, Declined, Refunded, Voided
from tests.unit.services import telling
from tests.unit.services.telling import (
    BOOKING_KEY,
    CHARGE,
    CHARGE_KEY,
    DISPATCH,
    DISPATCH_UNCERTAIN,
    DISPATCHED,
    RECALL,
    TAKEN,
    UNCERTAIN,
    UNDELIVERABLE,
    VOID,
)

META = Meta(id=CHARGE_KEY)


@dataclass
class Answers:
    """A gateway and carrier with one answer ready for each question."""

    charged: Charged | Accepted | Declined = field(default_factory=Charged)
    booked: Booked | Undeliverable = field(default_factory=lambda: Booked("P-1"))
    recalled: Booked | Recalled = field(default_factory=Recalled)

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:
        assert (key, order_id, amount_cents, currency) == (CHARGE_KEY, "1", 750, "GBP")
        return self.charged

    async def void(self, key: str) -> Voided:
        assert key == CHARGE_KEY
        return Voided(750)

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        assert (key, charge_key, amount_cents, currency) == ("refund", CHARGE_KEY, 750, "GBP")
        return Refunded()

    async def book(self, key: str, order_id: str, country: str) -> Booked | Undeliverable:
        assert (key, order_id, country) == (CHARGE_KEY, "1", "France")
        return self.booked

    async def recall(self, key: str) -> Booked | Recalled:
        assert key == BOOKING_KEY
        return self.recalled


async def test_a_charge_is_taken_under_the_id_of_its_request() -> None:
    assert await charge(CHARGE, Answers(), META) == TAKEN


async def test_a_charge_that_the_customer_has_to_confirm_is_accepted() -> None:
    assert await charge(CHARGE, Answers(charged=Accepted()), META) == telling.ACCEPTED


async def test_a_declined_charge_has_failed() -> None:
    assert await charge(CHARGE, Answers(charged=Declined("declined")), META) == telling.DECLINED


async def test_a_void_returns_what_had_been_taken() -> None:
    assert await void(VOID, Answers()) == telling.VOIDED


async def test_a_refund_has_a_key_of_its_own() -> None:
    assert await refund(telling.refund("customer"), Answers(), Meta(id="refund")) == telling.refunded("customer")


async def test_a_booked_order_is_dispatched() -> None:
    assert await dispatch(DISPATCH, Answers(), META) == DISPATCHED


async def test_an_undeliverable_order_has_failed() -> None:
    assert await dispatch(DISPATCH, Answers(booked=Undeliverable("undeliverable")), META) == UNDELIVERABLE


async def test_a_recalled_order_has_failed() -> None:
    assert await recall(RECALL, Answers()) == DispatchFailed(order_id="1", reason="carrier_silent")


async def test_an_order_that_is_on_its_way_cannot_be_recalled() -> None:
    assert await recall(RECALL, Answers(recalled=Booked("P-1"))) == DISPATCHED


def test_a_charge_without_an_answer_is_uncertain() -> None:
    otherwise = payments.effects[ChargeRequested].otherwise
    assert otherwise is not None
    assert otherwise(CHARGE) == UNCERTAIN


def test_a_booking_without_an_answer_is_uncertain() -> None:
    otherwise = shipments.effects[DispatchRequested].otherwise
    assert otherwise is not None
    assert otherwise(DISPATCH) == DISPATCH_UNCERTAIN


@pytest.mark.parametrize("request_type", [VoidRequested, RefundRequested, RecallRequested])
def test_compensations_do_not_give_up(request_type: type[Event]) -> None:
    effect = {**payments.effects, **shipments.effects}[request_type]
    assert effect.ask.retry.attempts is None
    assert effect.otherwise is None


@pytest.mark.parametrize(("length", "is_taken"), [(0, False), (1, True), (500, True), (501, False)])
def test_a_tracking_number_that_no_carrier_gives_is_no_answer(length: int, is_taken: bool) -> None:
    with nullcontext() if is_taken else pytest.raises(ValidationError):
        TypeAdapter(Booked).validate_python({"tracking": "T" * length})
