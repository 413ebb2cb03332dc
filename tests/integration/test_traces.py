"""Traces as a collector gets them by OTLP: every hop of a saga, with the parents that the log itself tells."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import httpx
import pytest

from bench.sagas import order
from eventlib import OutcomeUnknown, Runtime, RuntimeConfig, open_log
from eventlib.model.event import contract_of
from eventlib.model.identity import request_id
from eventlib.queries.sagas import find_saga
from eventlib.telemetry.options import telemetry_options
from services import shop
from services.order.api import create_app
from services.payment.ports import Charged, Declined
from tests.integration.api_shop import World, serving, stock_up
from tests.integration.otlp import Receiver, Span, Taking, receiving, spans_of

if TYPE_CHECKING:
    from eventlib.telemetry.process import Telemetry

SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5
NOWHERE, FRANCE, CANCELLED = "1", "2", "3"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class FirstChargeFails(World):
    """A gateway that cannot be reached the first time."""

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Declined:
        answer = await super().charge(key, order_id, amount_cents, currency)
        if self.charges == 1:
            raise OutcomeUnknown("not reached")
        return answer


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving(keeps=True) as found:
        told_to(found, "0.5", monkeypatch)
        yield found


def told_to(receiver: Receiver, share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", share)


@asynccontextmanager
async def traced_shop(
    url: str, directory: Path
) -> "AsyncIterator[tuple[Telemetry, Runtime, World, httpx.AsyncClient]]":
    """Run the services and the API on a log, with the telemetry that the environment asks for."""

    from eventlib.telemetry.process import telemetry_of

    config = RuntimeConfig(state_dir=str(directory / "state"))
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(url, shop))
        await stock_up(log)
        telemetry = stack.enter_context(telemetry_of(shop, url, telemetry_options(), metrics=True))
        assert telemetry is not None
        world = FirstChargeFails()
        ports = {"gateway": world, "carrier": world}
        runtime = await stack.enter_async_context(Runtime(log, ports=ports, config=config, observer=telemetry.recorder))
        telemetry.observe(log, runtime, config)
        await runtime.idle()
        client = await stack.enter_async_context(serving(telemetry.traced(create_app(log))))
        yield telemetry, runtime, world, client


@dataclass(frozen=True)
class ExternalStates:
    """What was received of three orders: one that comes to nothing, one that is dispatched, one that is called off."""

    log_url: str
    spans: list[Span]
    order_ids: dict[str, str]

    def trace(self, number: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id == _caller(number)[3:35]]


def _caller(number: str) -> str:
    return f"{CALLER[:34]}{number}{CALLER[35:]}"


async def orders_of(url: str, directory: Path, receiver: Taking) -> ExternalStates:
    order_ids = dict[str, str]()
    async with traced_shop(url, directory) as (telemetry, runtime, world, client):
        for number, country in ((NOWHERE, "Nowhere"), (FRANCE, "France"), (CANCELLED, "France")):
            if number == CANCELLED:
                world.charged.clear()
            lines = [{"sku": "A", "quantity": 1}, {"sku": "B", "quantity": 2}]
            body = {"country": country, "currency": "GBP", "lines": lines}
            answer = await client.post("/orders", json=body, headers={"traceparent": _caller(number)})
            order_ids[number] = answer.json()["order_id"]
            if number == CANCELLED:
                await client.post(f"/orders/{order_ids[number]}/cancel")
                world.charged.set()
            await runtime.idle()
        telemetry.flush()
    return ExternalStates(url, spans_of(receiver), order_ids)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("kafka", marks=pytest.mark.extended)])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ExternalStates:
    directory = tmp_path_factory.mktemp("traced")
    if request.param == "sqlite":
        url = f"sqlite:///{directory}/shop.db"
    else:
        url = f"{request.getfixturevalue('broker').url}/?prefix={token_hex(4)}."
    with receiving(keeps=True) as receiver, pytest.MonkeyPatch.context() as monkeypatch:
        told_to(receiver, "1", monkeypatch)
        return asyncio.run(orders_of(url, directory, receiver))


async def test_a_saga_with_its_compensation_is_one_trace_with_every_hop(told: ExternalStates) -> None:
    spans = told.trace(NOWHERE)
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans)
    (request,) = [span for span in spans if span.kind == SERVER]
    assert (request.name, request.service, request.parent_id) == ("POST /orders", "shop-http", CALLER[36:52])
    assert request.attributes["http.response.status_code"] == 202

    async with open_log(told.log_url, shop, read_only=True) as log:
        saga = await find_saga(log, told.order_ids[NOWHERE])
    types = {event.type for event in saga.events}
    assert {"PaymentRefunded", "StockReleased", "DispatchFailed", "OrderCancelled"} <= types
    answers = {contract_of(t).type for d in shop.deciders for e in d.effects.values() for t in e.emits}
    expected = set[tuple[str, str]]()
    for event in saga.events:
        sent = by_id[event.record.event_id[:16]]
        assert (sent.kind, sent.name) == (PRODUCER, f"send {event.record.topic}")
        assert sent.attributes["cloudevents.event_type"] == event.type
        parent = by_id[sent.parent_id]
        if event.cause is None:
            assert parent is request
            continue
        cause = by_id[event.cause.event_id[:16]]
        assert parent.service == event.service
        assert parent.parent_id == cause.span_id, event.type
        assert (parent.kind == CONSUMER) == (event.type not in answers)
        assert parent.attributes["messaging.message.id"] == event.cause.event_id
    for event in saga.events:
        for service in shop.services:
            for decider in service.deciders:
                if any(contract_of(t).type == event.type for t in decider.handlers):
                    expected.add((event.record.event_id[:16], decider.name))
    handled = [(span.parent_id, span.attributes["eventlib.decider"]) for span in spans if span.kind == CONSUMER]
    assert sorted(handled) == sorted(expected)


def test_an_effect_tells_its_attempts(told: ExternalStates) -> None:
    spans = told.trace(NOWHERE)
    (charge,) = [span for span in spans if span.name == "charge"]
    attempts = sorted((span for span in spans if span.name == "charge attempt"), key=lambda span: span.began_ns)
    assert [span.attributes["eventlib.attempt"] for span in attempts] == [1, 2]
    assert [span.failed for span in attempts] == [True, False]
    assert attempts[0].attributes["error.type"] == "OutcomeUnknown"
    assert {span.parent_id for span in attempts} == {charge.span_id}
    assert all(charge.began_ns <= span.began_ns <= span.ended_ns <= charge.ended_ns for span in attempts)
    assert (charge.service, charge.failed, {span.kind for span in attempts}) == ("payment", False, {CLIENT})
    (taken,) = _sent(spans, "PaymentTaken")
    assert taken.parent_id == charge.span_id


def test_what_joins_is_linked(told: ExternalStates) -> None:
    spans = told.trace(FRANCE)
    reserved_lines = {span.span_id for span in _sent(spans, "LineReserved")}
    (reserved,) = _sent(spans, "StockReserved")
    (joining,) = [span for span in spans if span.span_id == reserved.parent_id]
    linked = {span_id for _, span_id in joining.links}
    assert len(reserved_lines) == 2
    assert {joining.parent_id} | linked == reserved_lines


def test_a_cancellation_goes_on_in_the_trace_of_its_order(told: ExternalStates) -> None:
    order_id = told.order_ids[CANCELLED]
    (wish,) = _sent(told.spans, "CancelSubmitted")
    wished = wish.attributes["messaging.message.id"]
    (handled,) = [s for s in told.spans if s.attributes.get("messaging.message.id") == wished and s.kind == CONSUMER]
    assert wish.trace_id != handled.trace_id == _caller(CANCELLED)[3:35], order_id
    assert (wish.trace_id, wish.span_id) in handled.links


async def test_a_trace_is_whole_or_not_there(tmp_path: Path, receiver: Receiver) -> None:
    from eventlib.telemetry.process import telemetry_of

    orders = [order(n) for n in range(20)]
    ids = [request_id("order.requests", each.idempotency_key or "") for each in orders]
    sampled = {each for each in ids if int(each[16:], 16) < 1 << 63}
    assert 5 < len(sampled) < 15
    url = f"sqlite:///{tmp_path}/shop.db"
    async with open_log(url, shop) as log:
        with telemetry_of(shop, url, telemetry_options(), metrics=False) as telemetry:
            assert telemetry is not None
            ports = {"gateway": World(), "carrier": World()}
            async with Runtime(log, ports=ports, observer=telemetry.recorder) as runtime:
                telemetry.observe(log, runtime, RuntimeConfig())
                await log.publish_many(orders)
                await runtime.idle()
    spans = spans_of(receiver)
    assert {span.trace_id for span in spans} == sampled
    for trace_id in sampled:
        found = [span for span in spans if span.trace_id == trace_id]
        assert len(_sent(found, "OrderCancelled")) == 1  # there is no stock
        known = {span.span_id for span in found}
        roots = [span for span in found if span.parent_id not in known]
        assert [(span.name, span.parent_id) for span in roots] == [("send order.requests", "")]


def test_no_span_holds_what_an_event_holds(told: ExternalStates) -> None:
    attributes = " ".join(f"{name} {value}" for span in told.spans for name, value in span.attributes.items())
    assert not re.search(r"\bNowhere\b|\bGBP\b", attributes)


def _sent(spans: list[Span], event_type: str) -> list[Span]:
    return [span for span in spans if span.kind == PRODUCER and span.attributes["cloudevents.event_type"] == event_type]
