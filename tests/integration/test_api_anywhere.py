"""Orders are read anywhere: two instances of the API on a real broker, and the services in a process of their own."""

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

from eventlib import open_log
from services import shop
from tests import forked
from tests.integration.api_shop import placed_when_it_can_be, reachable, ready, refused, stock_up
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
EVENTLIB = str(Path(sys.executable).with_name("eventlib"))
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
