"""A shop with its API on a real socket, for the tests of the API."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from eventlib import EventLog, OutcomeUnknown, Publication, Runtime, open_log
from eventlib.http import ApiConfig
from services import shop
from services.dispatch.ports import Booked, Recalled, Undeliverable
from services.order.api import create_app
from services.order.events import ProductListed
from services.order.index import OrderIndex
from services.payment.ports import Charged, Declined, Refunded, Voided
from services.stock.events import DeliveryLine, DeliverySubmitted
from tests.serving import serving_app

Json = dict[str, Any]
SKUS = ("A", "B", "C")
SCARCE = "SCARCE"


@dataclass
class World:
    """A gateway and a carrier; what they say depends on the order's country, and waits while a gate is closed."""

    charged: asyncio.Event = field(default_factory=asyncio.Event)
    booked: asyncio.Event = field(default_factory=asyncio.Event)
    charges: int = 0

    def __post_init__(self) -> None:
        self.charged.set()
        self.booked.set()

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged | Declined:
        del key, order_id, currency
        self.charges += 1
        await self.charged.wait()
        return Declined("declined") if amount_cents == 1 else Charged()

    async def void(self, key: str) -> Voided:
        raise OutcomeUnknown(key)

    async def refund(self, key: str, charge_key: str, amount_cents: int, currency: str) -> Refunded:
        del key, charge_key, amount_cents, currency
        return Refunded()

    async def book(self, key: str, order_id: str, country: str) -> Booked | Undeliverable:
        del order_id
        await self.booked.wait()
        return Undeliverable("undeliverable") if country == "Nowhere" else Booked(tracking=f"T-{key[:6]}")

    async def recall(self, key: str) -> Booked | Recalled:
        raise OutcomeUnknown(key)


@dataclass
class Shop:
    """One log, and what runs on it."""

    log: EventLog
    world: World
    directory: Path
    runtime: Runtime | None = None


@asynccontextmanager
async def open_shop(directory: Path, *, running: bool = True) -> AsyncIterator[Shop]:
    """Open a log with a catalogue and stock; `running` runs the services."""
    async with open_log(f"sqlite:///{directory}/shop.db", shop) as log:
        found = Shop(log, World(), directory)
        await stock_up(log)
        if not running:
            yield found
            return
        async with services(found):
            yield found


@asynccontextmanager
async def services(found: Shop) -> AsyncIterator[Runtime]:
    """Run the services."""
    ports = {"gateway": found.world, "carrier": found.world}
    async with Runtime(found.log, ports=ports) as runtime, asyncio.timeout(120):
        await runtime.idle()
        found.runtime = runtime
        yield runtime


async def stock_up(log: EventLog) -> None:
    """List products at 250, and put them on their shelves; of one there is a single unit, one costs a cent."""
    prices = {**dict.fromkeys(SKUS, 250), SCARCE: 250, "CENT": 1, "FREE": 0}
    for sku, price in prices.items():
        listed = ProductListed(sku=sku, description=f"Ä {sku}", unit_price_cents=price, currency="GBP")
        await log.publish(listed)
    units = {**dict.fromkeys(prices, 1_000_000), SCARCE: 1}
    lines = tuple(DeliveryLine(sku=sku, quantity=quantity) for sku, quantity in units.items())
    await log.publish_many([Publication(DeliverySubmitted(delivery_id="D", lines=lines), idempotency_key="D")])


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an app on a port of the loopback, and give a client to it."""
    async with serving_app(app) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
        await ready(client)
        yield client


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until the API can be asked."""
    async with asyncio.timeout(120):
        async for answer in asking(client, "/readyz"):
            if answer.status_code == 200:
                return


async def asking(client: httpx.AsyncClient, url: str) -> AsyncIterator[httpx.Response]:
    """Ask again and again."""
    while True:
        yield await client.get(url)
        await asyncio.sleep(0.02)


async def reachable(client: httpx.AsyncClient) -> None:
    """Wait until somebody answers."""
    async with asyncio.timeout(120):
        while True:
            try:
                await client.get("/healthz")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


@asynccontextmanager
async def api(found: Shop, config: ApiConfig | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the shop's API."""
    async with serving(create_app(found.log, config, OrderIndex(found.log))) as client:
        yield client


def wanted(*skus: str, quantity: int = 1, **fields: object) -> Json:
    """Return the body of an order."""
    lines = [{"sku": sku, "quantity": quantity} for sku in skus or ("A",)]
    return {"customer_id": "17850", "country": "United Kingdom", "currency": "GBP", "lines": lines} | fields


async def place(client: httpx.AsyncClient, body: Json | None = None, *, key: str | None = None) -> Json:
    """Place an order, and return the answer's body."""
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = await client.post("/orders", json=body or wanted(), headers=headers)
    assert answer.status_code == 202, answer.text
    found: Json = answer.json()
    return found


async def placed_when_it_can_be(client: httpx.AsyncClient, headers: Mapping[str, str] | None = None) -> Json:
    """Place an order as clients do: what was not accepted, on a machine that is busy, is asked again."""
    async with asyncio.timeout(120):
        while (answer := await client.post("/orders", json=wanted(), headers=headers)).status_code == 503:
            await asyncio.sleep(float(answer.headers["Retry-After"]))
    assert answer.status_code == 202, answer.text
    placed: Json = answer.json()
    return placed


def refused(answer: httpx.Response, status: int, kind: str | None = None) -> Json:
    """Check that an answer is a problem, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: Json = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"] == ("about:blank" if kind is None else f"urn:shop:problem:{kind}")
    return problem


@asynccontextmanager
async def client_of(process: "subprocess.Popen[Any]", port: int) -> AsyncIterator[httpx.AsyncClient]:
    """Give a client of the API of a process, once that is ready; the process is killed at the end."""
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            await reachable(client)
            await ready(client)
            yield client
    finally:
        process.kill()
        process.communicate()
