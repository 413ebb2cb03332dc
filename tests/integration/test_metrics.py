"""Metrics as Prometheus gets them: scraped over HTTP, read by its own parser, and equal to what the log says."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from eventlib import (
    Choreography,
    EventLog,
    OutcomeUnknown,
    Publication,
    Runtime,
    RuntimeConfig,
    SagaStates,
    Service,
    open_log,
)
from eventlib.http.serving import Listening
from eventlib.limits import Limit
from eventlib.operations.pausing import pause, settled
from eventlib.queries.pauses import PauseTarget
from eventlib.queries.sagas import find_saga
from eventlib.telemetry.catalogue import METRICS
from eventlib.telemetry.options import TelemetryOptions
from services import payment, shop
from services.order.decider import orders, standing
from services.order.events import OrderLine, OrderSubmitted
from services.payment.events import ChargeConfirmed
from services.payment.ports import Accepted, Charged, Declined
from tests.integration.api_shop import World, stock_up

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    """A runtime whose metrics are scraped as Prometheus does."""

    def __init__(self, log: EventLog, runtime: Runtime, url: str) -> None:
        self.log = log
        self.runtime = runtime
        self._url = url

    async def samples(self) -> Samples:
        from prometheus_client.parser import text_string_to_metric_families

        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self._url}/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        families = text_string_to_metric_families(answer.text)
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


@asynccontextmanager
async def scraped(
    directory: Path, world: World, choreography: Choreography = shop, url: str = ""
) -> AsyncIterator[Scraped]:
    from eventlib.telemetry.process import telemetry_of

    url = url or f"sqlite:///{directory}/shop.db"
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(url, choreography))
        telemetry = stack.enter_context(telemetry_of(choreography, url, TelemetryOptions(), metrics=True))
        assert telemetry is not None
        config = RuntimeConfig(
            breaker_failures=3,
            breaker_pause_s=30,
            state_dir=str(directory / "state"),
        )
        ports = {"gateway": world, "carrier": world}
        observed = Runtime(log, ports=ports, config=config, observer=telemetry.recorder)
        runtime = await stack.enter_async_context(observed)
        telemetry.observe(log, runtime, config)
        listening = Listening("0", option="--metrics-port")
        stack.callback(listening.close)
        await stack.enter_async_context(listening.serve(telemetry.metrics))
        yield Scraped(log, runtime, listening.url)


def order(number: int, country: str = "France", sku: str = "A") -> Publication:
    line = OrderLine(line_no=1, sku=sku, quantity=1, unit_price_cents=1 if sku == "CENT" else 250)
    submitted = OrderSubmitted(
        order_id=f"o{number}", customer_id=None, country=country, currency="GBP", lines=(line,), placed_at=None
    )
    return Publication(submitted, idempotency_key=submitted.order_id)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[METRICS[name].prometheus, frozenset(labels.items())]


def count(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"{METRICS[name].prometheus}_count", frozenset(labels.items())]


@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.extended)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return str(request.getfixturevalue("kafka_url"))


async def test_what_is_scraped_is_what_the_log_says(url: str, tmp_path: Path) -> None:
    wanted = [order(1), order(2, "Nowhere"), order(3, sku="CENT"), order(4)]
    async with scraped(tmp_path, World(), url=url) as shop_seen:
        await stock_up(shop_seen.log)
        await shop_seen.runtime.idle()  # between topics no order is promised: units come first
        await shop_seen.log.publish_many(wanted)
        await shop_seen.runtime.idle()
        seen = await shop_seen.samples()
        said = Counter[tuple[str, str]]()
        for number in range(1, 5):
            saga = await find_saga(shop_seen.log, f"o{number}")
            said.update((event.service, event.type) for event in saga.events if event.service != "outside")
    for (service, event), expected in said.items():
        assert value(seen, "eventlib.events.said", service=service, event=event) == expected
    assert count(seen, "eventlib.saga.duration", service="order", event="OrderCompleted", reason="") == 2
    for reason in ("declined", "undeliverable"):
        assert count(seen, "eventlib.saga.duration", service="order", event="OrderCancelled", reason=reason) == 1
    attempts = {"service": "payment", "effect": "charge", "outcome": "answered"}
    assert count(seen, "eventlib.effect.attempt.duration", **attempts) == 4
    assert value(seen, "eventlib.sagas.in_flight", service="order", decider="order") == 0
    assert {v for (name, _), v in seen.items() if name == METRICS["eventlib.lag"].prometheus} == {0}
    assert value(seen, "eventlib.tasks", service="stock") == 8
    if url.startswith("sqlite"):  # how much brokers keep is for their own metrics to say
        assert value(seen, "eventlib.log.size") >= (tmp_path / "shop.db").stat().st_size / 2
    assert value(seen, "eventlib.store.size") > 0
    assert count(seen, "eventlib.commit.duration", service="order") > 0
    assert value(seen, "eventlib.inputs.handled", service="dispatch") > 0


def with_a_limit() -> Choreography:
    """Return the shop, with payments that wait at a limit."""
    limited = Service("payment", deciders=payment.service.deciders, limits={"gateway": Limit(concurrent=8)})
    services = [limited if each is payment.service else each for each in shop.services]
    return Choreography("shop", services, facts=shop.facts, sagas=SagaStates(orders, standing))


class ConfirmedLater(World):
    """A gateway that answers one charge later."""

    key = order_id = ""

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Accepted | Declined:  # type: ignore[override]  # it answers more
        if self.key:
            return await super().charge(key, order_id, amount_cents, currency)
        self.key, self.order_id = key, order_id
        return Accepted()


async def test_every_metric_that_is_declared_is_there_and_no_other(tmp_path: Path) -> None:
    world = ConfirmedLater()
    async with scraped(tmp_path, world, with_a_limit()) as shop_seen:
        await stock_up(shop_seen.log)
        await shop_seen.log.publish_many([order(number) for number in range(200)])  # enough for one to be traced
        await shop_seen.runtime.idle()
        await shop_seen.log.publish(ChargeConfirmed(order_id=world.order_id, charge_key=world.key))
        await shop_seen.runtime.idle()
        seen = {name for name, _ in await shop_seen.samples() if name.startswith("eventlib")}
    suffixes = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    declared = {m.prometheus + s for m in METRICS.values() for s in suffixes[m.kind] if m.measured_by == "runtime"}
    assert seen == declared


async def test_what_waits_is_told_and_known_again_after_a_restart(tmp_path: Path) -> None:
    class Away(World):
        async def charge(self, *_: object) -> Charged | Declined:
            raise OutcomeUnknown("away")

    for _ in range(2):
        async with scraped(tmp_path, Away()) as shop_seen:
            await stock_up(shop_seen.log)
            await shop_seen.log.publish_many([order(number) for number in range(5)])
            async with asyncio.timeout(120):
                seen = await shop_seen.samples()
                while seen.get(("eventlib_breaker_state", frozenset({("port", "gateway")}))) != 2:
                    await asyncio.sleep(0.05)
                    seen = await shop_seen.samples()
        assert value(seen, "eventlib.sagas.in_flight", service="order", decider="order") == 5
        assert value(seen, "eventlib.effects.pending", service="payment") == 5
        assert value(seen, "eventlib.breaker.state", port="carrier") == 0
        failed = {"service": "payment", "effect": "charge", "outcome": "failed"}
        assert count(seen, "eventlib.effect.attempt.duration", **failed) >= 3


async def test_a_parked_key_is_told(tmp_path: Path) -> None:
    async with scraped(tmp_path, World()) as shop_seen:
        await stock_up(shop_seen.log)
        await shop_seen.runtime.idle()
        record = shop_seen.log.records_of(order(7), 1)[0]
        await shop_seen.log.port.append([record.replace(value=b"\x00\x00\x00\x00\x01broken")])
        await shop_seen.runtime.idle()
        await pause(shop_seen.log, PauseTarget("payment"), "os:ada", "a test")
        await settled(shop_seen.log, PauseTarget("payment"), 60)
        seen = await shop_seen.samples()
    tasks = shop_seen.log.choreography.service("payment").partitions
    assert value(seen, "eventlib.paused", service="payment", kind="service") == tasks
    assert value(seen, "eventlib.paused", service="order", kind="service") == 0
    assert value(seen, "eventlib.keys.parked", service="order") == 1
    assert value(seen, "eventlib.keys.parked", service="stock") == 0
