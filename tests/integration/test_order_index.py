"""The order index against the log: equal to an independent fold of it, live, rebuilt, and after kills."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx

from eventlib import Event, EventLog
from eventlib.queries.sagas import find_saga
from services.order.index import OrderIndex
from services.order.state import Status
from tests import forked
from tests.integration.api_shop import Shop, api, client_of, open_shop, place, wanted
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
EVENTLIB = str(Path(sys.executable).with_name("eventlib"))
EFFECTS = {
    "PaymentTaken": "taken_cents",
    "PaymentRefunded": "refunded_cents",
}
ENDS = {"OrderCompleted": Status.COMPLETED, "OrderCancelled": Status.CANCELLED}


async def folded(log: EventLog) -> dict[str, dict[str, Any]]:
    """Return what each order has come to, from the events alone."""
    found: dict[str, dict[str, Any]] = {}
    for topic in ("orders", "payments"):
        for partition in range((await log.port.topics())[topic].partitions):
            for record, event in await log.decode_many(await log.port.read(topic, partition, 0, 100_000)):
                assert isinstance(event, Event)
                facts = dict(event)
                order = found.setdefault(facts["order_id"], {"taken_cents": 0, "refunded_cents": 0})
                if record.type == "OrderPlaced":
                    order |= {"customer_id": facts["customer_id"], "amount_cents": facts["amount_cents"]}
                    order["opened_at"] = record.timestamp_ms
                if record.type in ENDS:
                    order["status"] = ENDS[record.type]
                if record.type in EFFECTS:
                    order[EFFECTS[record.type]] = facts["amount_cents"]
    return found


async def compare(log: EventLog, index: OrderIndex) -> None:
    """Hold everything that the index answers to the log."""
    assert await index.caught_up(20)
    orders = await folded(log)
    listed = index.orders(None, None, None, 100_000)
    newest_first = sorted(orders, key=lambda order_id: (orders[order_id]["opened_at"], order_id), reverse=True)
    assert [found.order_id for found in listed] == newest_first
    for found in listed:
        expected = orders[found.order_id]
        for name in ("status", "customer_id", "amount_cents", "taken_cents", "refunded_cents"):
            assert getattr(found.order, name) == expected[name], (found.order_id, name)
    for order_id in Random(1).sample(sorted(orders), min(25, len(orders))):
        saga = await find_saga(log, order_id)
        there = [(record.topic, record.partition, record.offset) for _, record in index.events(order_id)]
        assert sorted(there) == sorted((e.record.topic, e.record.partition, e.record.offset) for e in saga.events)


async def some_orders(client: httpx.AsyncClient, count: int, seed: int) -> None:
    random = Random(seed)
    for number in range(count):
        skus = random.choices(("A", "B", "C", "SCARCE"), k=random.randint(1, 4))
        body = wanted(*skus, country=random.choice(("France", "Nowhere")), customer_id=str(random.randrange(5)))
        if random.random() < 0.2:
            body = wanted("CENT", customer_id="poor")
        placed = await place(client, body, key=f"{seed}-{number}")
        if random.random() < 0.3:
            await client.post(f"/orders/{placed['order_id']}/cancel")


async def test_the_index_equals_an_independent_fold_also_when_it_is_rebuilt(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop, OrderIndex(shop.log) as live:
        async with api(shop) as client:
            await asyncio.gather(*(some_orders(client, 15, seed) for seed in range(4)))
        assert shop.runtime is not None
        await shop.runtime.idle()
        await compare(shop.log, live)
        before = [(found.order_id, found.order) for found in live.orders(None, None, None, 1_000)]
        async with OrderIndex(shop.log, tmp_path / "fresh.db") as fresh:
            await compare(shop.log, fresh)
            assert [(f.order_id, f.order) for f in fresh.orders(None, None, None, 1_000)] == before
        await shop.log.port.compact()
        await live.rebuild()
        await compare(shop.log, live)


@asynccontextmanager
async def api_process(shop: Shop, port: int) -> AsyncIterator[tuple["subprocess.Popen[bytes]", httpx.AsyncClient]]:
    """Start `eventlib run --http` without services, in a process of its own; kill it at the end."""
    command = [EVENTLIB, "run", "--no-services", "--http", str(port), "--log", f"sqlite:///{shop.directory}/shop.db"]
    process = forked.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    async with client_of(process, port) as client:
        yield process, client


async def test_an_api_process_that_is_killed_loses_nothing_that_it_has_accepted(tmp_path: Path) -> None:
    random = Random(3)
    accepted: dict[str, str] = {}

    async def customer(client: httpx.AsyncClient, name: str) -> None:
        for number in range(1_000):
            key = f"{name}-{number}"
            try:
                placed = await place(client, key=key)
            except httpx.TransportError:
                return
            assert accepted.setdefault(key, placed["order_id"]) == placed["order_id"]

    async with open_shop(tmp_path) as shop:
        port = free_port()
        for life in range(3):
            async with api_process(shop, port) as (process, client):
                customers = [asyncio.create_task(customer(client, f"{life}-{n}")) for n in range(4)]
                while len(accepted) < 4 * (life + 1):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(random.uniform(0.0, 0.3))
                os.kill(process.pid, signal.SIGKILL)
                await asyncio.gather(*customers)
        async with api_process(shop, port) as (_, client):
            again = {key: (await place(client, key=key))["order_id"] for key in accepted}
        assert again == accepted
        assert len(accepted) > 10
        assert shop.runtime is not None
        await shop.runtime.idle()
        files = [name for name in os.listdir(tmp_path) if name.endswith("index.db")]  # noqa: PTH208  names, and at once
        assert files == ["shop.db.order-index.db"]  # who comes after a kill takes its file over
        async with OrderIndex(shop.log) as index:
            await compare(shop.log, index)
            assert {found.order_id for found in index.orders(None, None, None, 10_000)} >= set(accepted.values())
