"""Processes of the order API: with services, metrics and traces in one, and several that answer for every order."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from eventlib import Publication, open_log
from services import shop
from services.order.events import ProductListed
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests import forked
from tests.integration.api_shop import place, placed_when_it_can_be, reachable, ready, refused, stock_up, wanted
from tests.integration.otlp import receiving, spans_of
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
EVENTLIB = str(Path(sys.executable).with_name("eventlib"))


def run(directory: Path, *options: str, **variables: str) -> "subprocess.Popen[str]":
    command = [EVENTLIB, "run", "--log", f"sqlite:///{directory}/shop.db", *options]
    environment = {**os.environ, **variables}
    return forked.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment)


async def stock_shelves(directory: Path) -> None:
    async with open_log(f"sqlite:///{directory}/shop.db", shop) as log:
        await log.publish(ProductListed(sku="A", description="A", unit_price_cents=250, currency="GBP"))
        delivery = DeliverySubmitted(delivery_id="D", lines=(DeliveryLine(sku="A", quantity=100),))
        await log.publish_many([Publication(delivery, idempotency_key="D")])


async def test_services_http_metrics_and_traces_run_and_stop_together(tmp_path: Path) -> None:
    await stock_shelves(tmp_path)
    port, metrics = free_port(), free_port()
    with receiving(keeps=True) as receiver:
        process = run(
            tmp_path,
            *("--http", str(port), "--metrics-port", str(metrics)),
            SHOP_GATEWAY_TIMEOUT="1",
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_TRACES_SAMPLER_ARG="1",
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
        )
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                await reachable(client)
                await ready(client)
                order_id = (await place(client))["order_id"]
                told = (await client.get(f"http://127.0.0.1:{metrics}/metrics")).text
                async with client.stream("GET", f"/orders/{order_id}/events") as stream:
                    lines = stream.aiter_lines()
                    assert (await anext(lines)).startswith("id: order.requests/")
                    process.send_signal(signal.SIGTERM)  # the gateway does not answer, so the stream would go on
                    assert await asyncio.to_thread(process.wait, 120) == 0
        finally:
            process.kill()
            _, said = process.communicate()
        spans = spans_of(receiver)
    assert f"http://127.0.0.1:{port}" in said
    assert said.endswith("Stopped.\n")
    assert 'eventlib_events_said_total{event="OrderPlaced",service="order"} 1.0' in told
    (request,) = [span for span in spans if span.name == "POST /orders"]
    assert "OrderPlaced" in {
        s.attributes.get("cloudevents.event_type") for s in spans if s.trace_id == request.trace_id
    }


async def test_a_process_with_one_service_answers_for_what_another_one_decides(tmp_path: Path) -> None:
    await stock_shelves(tmp_path)
    port = free_port()
    others = run(tmp_path, "--service", "stock", "--service", "payment", "--service", "dispatch")
    order = run(tmp_path, "--service", "order", "--http", str(port))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            await reachable(client)
            await ready(client)
            placed = (await client.post("/orders", json=wanted(), headers={"Prefer": "wait=15"})).json()
            async with asyncio.timeout(120):
                while placed["ended_at"] is None:
                    await asyncio.sleep(0.1)
                    placed = (await client.get(f"/orders/{placed['order_id']}")).json()
            assert placed["status"] in {"completed", "cancelled"}  # cancelled: the delivery came later
    finally:
        for process in (others, order):
            process.kill()
            process.communicate()


def test_what_cannot_be_run_is_a_sentence(tmp_path: Path) -> None:
    for options, sentence in (
        (["--no-services"], "leaves nothing to run: give --http PORT"),
        (["--no-services", "--service", "order", "--http", "0"], "contradict each other"),
        (["--http", "web"], "expected a port or HOST:PORT"),
        (["--http", "192.0.2.1:80"], "no identity is configured"),
        (["--http", "192.0.2.1:80", "--insecure"], "this address cannot be used"),
    ):
        process = run(tmp_path, *options)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 1
        assert sentence in said
        assert "Traceback" not in said


STEPS = {"open": 0, "reserved": 1, "rejected": 2, "released": 2, "shipped": 2}
MOST_STALE_MS = 10_000
ORDERS = 4


@contextmanager
def process(directory: Path, url: str, *options: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [EVENTLIB, "run", "--app", "services:shop", "--log", url, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    running = forked.Popen(command, cwd=directory, stderr=subprocess.DEVNULL, env=environment)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@asynccontextmanager
async def instances(directory: Path, url: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Run two instances of the API that run no services."""
    ports = [free_port(), free_port()]
    async with AsyncExitStack() as stack:
        clients = list[httpx.AsyncClient]()
        for port in ports:
            stack.enter_context(process(directory, url, "--no-services", "--http", str(port)))
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=40)
            clients.append(await stack.enter_async_context(client))
        for client in clients:
            await reachable(client)
            await ready(client)
        yield clients


async def read(client: httpx.AsyncClient, order_id: str, position: str | None = None) -> dict[str, Any]:
    """Read an order, and see how old the answer says to be."""
    parameters = {} if position is None else {"min_position": position}
    answer = await client.get(f"/orders/{order_id}", params=parameters)
    assert answer.status_code == 200, answer.text
    assert 0 <= int(answer.headers["Staleness-Ms"]) < MOST_STALE_MS
    found: dict[str, Any] = answer.json()
    return found


def facts(order: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in order.items() if name != "position"}


@pytest.mark.extended
async def test_every_instance_answers_for_every_order(kafka_url: str, tmp_path: Path) -> None:
    async with open_log(kafka_url, shop) as log:
        await stock_up(log)
    with process(tmp_path, kafka_url) as services:
        async with instances(tmp_path, kafka_url) as clients:
            orders = list[str]()
            for number in range(ORDERS):
                here, there = clients[number % 2], clients[1 - number % 2]
                placed = await placed_when_it_can_be(here)
                orders.append(placed["order_id"])
                assert (await read(there, orders[-1], placed["position"]))["amount_cents"] == 250
                await _reads_go_on(here, there, orders[-1])
            ended = [[facts(await _ended(client, order_id)) for order_id in orders] for client in clients]
            assert ended[0] == ended[1]
            assert {order["order_id"] for order in ended[0]} == set(orders)

            # With nobody left who owns an order, each instance goes on to answer for it.
            services.send_signal(signal.SIGKILL)
            services.wait()
            assert [[facts(await read(client, each)) for each in orders] for client in clients] == ended
            far = (await read(clients[0], orders[0]))["position"].rpartition("-")[0] + "-99999999"
            refused(await clients[1].get("/orders", params={"min_position": far}), 422, "invalid")


async def _reads_go_on(here: httpx.AsyncClient, there: httpx.AsyncClient, order_id: str) -> None:
    """Read an order here and there by turns: what was seen once is not unseen."""
    position, furthest = None, 0
    for client in (here, there) * 3:
        order = await read(client, order_id, position)
        position = order["position"]
        assert STEPS[order["stock"]] >= furthest
        furthest = STEPS[order["stock"]]


async def _ended(client: httpx.AsyncClient, order_id: str) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while (order := await read(client, order_id))["status"] not in {"completed", "cancelled"}:
            await asyncio.sleep(0.05)
    return order
