"""Answers of the gateway and the carrier become events; what is no answer is resolved, and never taken for a refusal."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter, ValidationError

from eventlib import Event
from eventlib.model.effect import Effect
from eventlib.model.event import Meta
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts, Pause
from services import shop
from services.dispatch.decider import shipments
from services.dispatch.effects import dispatch, recall
from services.dispatch.events import DispatchFailed, DispatchRequested, DispatchUncertain, RecallRequested
from services.dispatch.http_carrier import HttpCarrier
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.http_calls import Calls
from services.payment.decider import payments
from services.payment.effects import charge, refund, void
from services.payment.events import ChargeRequested, ChargeUncertain, RefundRequested, VoidRequested
from services.payment.http_gateway import HttpGateway
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


KEY = "0" * 32
REQUESTS: dict[str, Event] = {
    "charge": ChargeRequested(order_id="1", amount_cents=5, currency="GBP", country="France"),
    "void": VoidRequested(order_id="1", charge_key=KEY, currency="GBP", reason="r"),
    "refund": RefundRequested(order_id="1", charge_key=KEY, amount_cents=5, currency="GBP", reason="r"),
    "book": DispatchRequested(order_id="1", country="France"),
    "recall": RecallRequested(order_id="1", booking_key=KEY, reason="r"),
}
REFUSALS = {"outcome": "declined", "reason": "no"}, {"outcome": "undeliverable", "reason": "no"}


def _raising(error: Exception) -> Callable[[httpx.Request], httpx.Response]:
    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    return answer


def _answering(status: int, content: bytes, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(status, content=content, headers=headers)


FAULTS: dict[str, Callable[[httpx.Request], httpx.Response]] = {
    **{type(error).__name__: _raising(error) for error in (
        httpx.ConnectError("refused"), httpx.ConnectTimeout(""), httpx.ReadTimeout(""), httpx.ReadError("reset"),
        httpx.WriteError("reset"), httpx.RemoteProtocolError("cut"), httpx.PoolTimeout(""), httpx.ProxyError("no"),
        httpx.TooManyRedirects("no"), TimeoutError(), ConnectionResetError(), OSError("no route"),
    )},
    # A refusal in the body counts for nothing where the status does not stand for it.
    **{f"{status} {refusal['outcome']}": _answering(status, json.dumps(refusal).encode(), location="/")
       for refusal in REFUSALS
       for status in (301, 302, 307, 308, 400, 401, 403, 404, 405, 408, 409, 410, 422, 425, 429, 500, 502, 503, 504)},
    **{f"200 {body[:40]!r}": _answering(200, body) for body in (
        b"", b"null", b"{}", b"[]", b"<html>declined</html>", b'{"outcome": "declined"}', b'{"outcome": "DECLINED"}',
        b'{"outcome": "declined", "reason": ""}', b'{"outcome": "undeliverable", "reason": "no"', b"\xff\xfe\x00",
    )},
    "unknown charset": _answering(200, b"\xff", **{"content-type": "text/html; charset=rot13"}),
    "204": _answering(204, b""),
}  # fmt: skip


def effect_of(request: Event) -> Effect:
    return next(d.effects[type(request)] for s in shop.services for d in s.deciders if type(request) in d.effects)


async def outcome(request: Event, answer: Callable[[httpx.Request], httpx.Response]) -> Any:
    """Try an effect until something follows, or its third pause."""
    record = Record("t", 0, 0, 0, b"1", b"", id=KEY, type=type(request).__name__)
    course = EffectAttempts(effect_of(request), record, request)
    async with httpx.AsyncClient(base_url="http://outside", transport=httpx.MockTransport(answer)) as client:
        ports = {"gateway": HttpGateway(Calls(client)), "carrier": HttpCarrier(Calls(client))}
        for _ in range(8):
            try:
                return course.answered(await course.asking.coroutine(course.arguments(ports)))
            except Exception as error:  # noqa: BLE001  as the runner does
                follows = course.failed(error)
            if not isinstance(follows, Pause):
                return follows
    return follows


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_is_no_answer_is_never_taken_for_a_refusal(name: str) -> None:
    for fault, answer in FAULTS.items():
        found = await outcome(REQUESTS[name], answer)
        if isinstance(found, Pause):
            assert name in {"void", "refund", "recall"}, fault  # these do not give up
        else:  # uncertain, or parked for a person: never what the business would call a refusal, or a success
            assert found.event is None or type(found.event) in {ChargeUncertain, DispatchUncertain}, (fault, found)
            assert found.event is not None or found.reason, fault
