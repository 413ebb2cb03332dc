"""Orders over HTTP, as a client meets them; prints its figures as one flat JSON object.

`python -m bench.http [SECONDS [AT ...]]`: orders are posted for SECONDS (default 10) with the services in
the API's process, and again in another one; timelines and lists are read when AT orders (default 10000) are there.
The client speaks HTTP by hand, so that what is measured is the server, on a machine that both share.
"""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.sagas import SKUS, InstantCarrier, InstantGateway, run_orders, stock_up
from eventlib import Publication, Runtime, open_log
from eventlib.runtime.runtime import collect_garbage_seldom
from services import shop
from services.order.events import ProductListed

ROOT = Path(__file__).resolve().parents[1]
CONNECTIONS = 64
PER_S = 100
READS = 200
APP = "bench.instant_shop:shop"


class Connection:
    """One connection that is kept open: HTTP/1.1, as much of it as is needed here."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", header: str = "") -> tuple[int, bytes]:
        """Ask, and return the answer's status and body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{header}"
        writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(answer[9:12]), await reader.readexactly(length)


def body(number: int) -> bytes:
    """Return the n-th order: one unit of one product."""
    lines = [{"sku": f"SKU-{number % SKUS}", "quantity": 1}]
    customer = f"customer-{number % 997}"
    order = {"customer_id": customer, "country": "United Kingdom", "currency": "GBP", "lines": lines}
    return json.dumps(order).encode()


@asynccontextmanager
async def server(log: str, *, apart: bool) -> AsyncIterator[int]:
    """Run the API, with the services in its process or in another one; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("eventlib")), "run", "--app", APP, "--log", log]
    api = [*command, "--http", str(port)]
    commands = [command, [*api, "--no-services"]] if apart else [api]
    running = [await asyncio.create_subprocess_exec(*each, cwd=ROOT, stderr=subprocess.DEVNULL) for each in commands]
    try:
        await ready(port)
        yield port
    finally:
        for process in running:
            process.terminate()
            await process.wait()


async def ready(port: int) -> None:
    """Wait until the API can be asked."""
    async with asyncio.timeout(600):
        while True:
            try:
                if (await Connection(port).ask("GET", "/readyz"))[0] == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.1)


async def accepted_per_s(port: int, seconds: float) -> dict[str, float]:
    """Post one order after the other on each of many connections."""
    until = time.perf_counter() + seconds
    took = list[float]()

    async def customer(first: int) -> None:
        connection, number = Connection(port), first
        while (began := time.perf_counter()) < until:
            status, answer = await connection.ask("POST", "/orders", body(number))
            assert status == 202, answer
            took.append(time.perf_counter() - began)
            number += CONNECTIONS

    began = time.perf_counter()
    await asyncio.gather(*(customer(n) for n in range(CONNECTIONS)))
    rate = len(took) / (time.perf_counter() - began)
    return {"accepted_per_s": rate, "accepted_p50_ms": percentile(took, 50), "accepted_p99_ms": percentile(took, 99)}


async def to_the_end(port: int, seconds: float) -> dict[str, float]:
    """Post so many orders a second, whatever comes back, and measure until each has ended."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    took = list[float]()

    async def customer(number: int) -> None:
        connection = Connection(port) if free.empty() else free.get_nowait()
        began = time.perf_counter()
        status, answer = await connection.ask("POST", "/orders", body(number), "Prefer: wait=10\r\n")
        took.append(time.perf_counter() - began)
        assert (status, json.loads(answer)["status"]) == (202, "completed")
        free.put_nowait(connection)

    began = time.perf_counter()
    posts = list[asyncio.Task[None]]()
    for number in range(int(seconds * PER_S)):
        await asyncio.sleep(max(0.0, began + number / PER_S - time.perf_counter()))
        posts.append(asyncio.create_task(customer(number)))
    await asyncio.gather(*posts)
    return {f"end_p{share}_ms": percentile(took, share) for share in (50, 99)}


async def idle(port: int) -> None:
    """Wait until nothing waits for the order service."""
    async with asyncio.timeout(60):
        while True:
            _, figures = await Connection(port).ask("GET", "/metrics")
            if b"shop_backlog 0\n" in figures and b"shop_index_behind 0\n" in figures:
                return
            await asyncio.sleep(0.1)


async def reads(port: int, size: int) -> dict[str, float]:
    """Read timelines, orders and lists one after the other."""
    connection = Connection(port)
    status = "status=completed"
    paths = {
        "order": [f"/orders/order-{n * size // READS}" for n in range(READS)],
        "timeline": [f"/orders/order-{n * size // READS}/timeline" for n in range(READS)],
        "list_50": [f"/orders?{status}"] * READS,
        "list_of_customer": [f"/orders?customer_id=customer-{n}&limit=10&{status}" for n in range(READS)],
    }
    found = dict[str, float]()
    for name, urls in paths.items():
        took = list[float]()
        for url in urls:
            began = time.perf_counter()
            answered, _ = await connection.ask("GET", url)
            took.append(time.perf_counter() - began)
            assert answered == 200, url
        found[f"{name}_p50_ms"] = statistics.median(took) * 1_000
    return found


def percentile(seconds: list[float], share: int) -> float:
    """Return a percentile in milliseconds."""
    return statistics.quantiles(seconds, n=100)[share - 1] * 1_000


async def filled(log: str, orders: int) -> None:
    """Make a log with a catalogue, stock, and so many orders that have ended."""
    async with open_log(log, shop) as opened:
        ports = {"gateway": InstantGateway(), "carrier": InstantCarrier()}
        async with Runtime(opened, ports=ports) as runtime:
            listed = [
                ProductListed(sku=f"SKU-{n}", description=f"Product {n}", unit_price_cents=250, currency="GBP")
                for n in range(SKUS)
            ]
            await opened.publish_many([Publication(each) for each in listed])
            await stock_up(opened)
            await runtime.idle()
            await run_orders(opened, runtime, 0, orders)


async def measure(seconds: float, sizes: list[int]) -> dict[str, float]:
    """Measure everything."""
    found = dict[str, float]()
    for apart, name in ((False, "together"), (True, "apart")):
        with tempfile.TemporaryDirectory() as directory:
            log = f"sqlite:///{directory}/shop.db"
            await filled(log, 0)
            async with server(log, apart=apart) as port:
                await to_the_end(port, 2)  # the first requests find cold code
                ended = await to_the_end(port, seconds)
                await idle(port)
                accepted = await accepted_per_s(port, seconds)
            found |= {f"http_{figure}_{name}": value for figure, value in (ended | accepted).items()}
    for size in sizes:
        with tempfile.TemporaryDirectory() as directory:
            log = f"sqlite:///{directory}/shop.db"
            await filled(log, size)
            began = time.perf_counter()
            async with server(log, apart=False) as port:
                found[f"http_index_built_s_at_{size}"] = time.perf_counter() - began
                found |= {f"http_{name}_at_{size}": value for name, value in (await reads(port, size)).items()}
    return found


if __name__ == "__main__":
    collect_garbage_seldom()
    duration, *orders = sys.argv[1:] or ["10"]
    print(json.dumps(asyncio.run(measure(float(duration), [int(each) for each in orders] or [10_000]))))
