"""Whatever the outside world does but answer, an effect never takes it for a refusal."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from eventlib import Event
from eventlib.model.effect import Effect
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts, Pause
from services import shop
from services.dispatch.events import DispatchRequested, DispatchUncertain, RecallRequested
from services.dispatch.http_carrier import HttpCarrier
from services.http_calls import Calls
from services.payment.events import ChargeRequested, ChargeUncertain, RefundRequested, VoidRequested
from services.payment.http_gateway import HttpGateway

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
