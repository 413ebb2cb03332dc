"""`eventlib run --http` as a person runs it: orders, a graceful stop, and what cannot be."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from eventlib import Publication, open_log
from services import shop
from services.order.events import ProductListed
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests import forked
from tests.integration.api_shop import place, reachable, ready, wanted
from tests.integration.otlp import receiving, spans_of
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
EVENTLIB = str(Path(sys.executable).with_name("eventlib"))


def run(directory: Path, *options: str, **variables: str) -> "subprocess.Popen[str]":
    command = [EVENTLIB, "run", "--log", f"sqlite:///{directory}/shop.db", *options]
    environment = {**os.environ, **variables}
    return forked.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment)


async def stock_up(directory: Path) -> None:
    async with open_log(f"sqlite:///{directory}/shop.db", shop) as log:
        await log.publish(ProductListed(sku="A", description="A", unit_price_cents=250, currency="GBP"))
        delivery = DeliverySubmitted(delivery_id="D", lines=(DeliveryLine(sku="A", quantity=100),))
        await log.publish_many([Publication(delivery, idempotency_key="D")])


async def test_services_http_metrics_and_traces_run_and_stop_together(tmp_path: Path) -> None:
    await stock_up(tmp_path)
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
    await stock_up(tmp_path)
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
