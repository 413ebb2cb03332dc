"""One-line orders through the whole saga on an SQLite log; prints its figures as one JSON object.

The gateway and the carrier answer at once, from memory: what is measured is the toolkit. Run by `bench.py`, in a
process of its own: `python -m bench.sagas PATH ORDERS [AT ...]` runs ORDERS orders, once for each AT,
when AT orders are on the log already (default: 0). Where OTEL_TRACES_EXPORTER or OTEL_EXPORTER_PROMETHEUS_PORT says so, it
is traced or counts its metrics, as `eventlib run` does.
"""

import asyncio
import json
import resource
import sys
import time
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from eventlib import EventLog, Publication, Runtime, RuntimeConfig, open_log
from eventlib.log.sqlite.log import SqliteLog
from eventlib.runtime.runtime import collect_garbage_seldom
from eventlib.telemetry.options import telemetry_options
from services import shop
from services.dispatch.ports import Booked, Recalled
from services.order.events import OrderLine, OrderSubmitted
from services.payment.ports import Charged
from services.stock.events import DeliveryLine, DeliverySubmitted

if TYPE_CHECKING:
    from eventlib.telemetry.process import Telemetry

SKUS = 500
OPEN = 2_000
"""How many orders are open at once at most: what the import does, too, so that its log's end stays in memory."""


class InstantGateway:
    """Takes every charge at once."""

    async def charge(self, key: str, order_id: str, amount_cents: int, currency: str) -> Charged:
        """Say that it was taken."""
        del key, order_id, amount_cents, currency
        return Charged()


class InstantCarrier:
    """Takes every parcel at once."""

    async def book(self, key: str, order_id: str, country: str) -> Booked:
        """Say that it is on its way."""
        del order_id, country
        return Booked(tracking=key)

    async def recall(self, key: str) -> Booked | Recalled:
        """Never asked: every booking is answered."""
        raise AssertionError(key)


async def stock_up(log: EventLog) -> None:
    """Put enough units on every shelf."""
    deliveries = [
        DeliverySubmitted(delivery_id=f"D{n}", lines=(DeliveryLine(sku=f"SKU-{n}", quantity=1_000_000),))
        for n in range(SKUS)
    ]
    await log.publish_many([Publication(each, idempotency_key=each.delivery_id) for each in deliveries])


def order(n: int) -> Publication:
    """Return the n-th order: one unit of one product."""
    line = OrderLine(line_no=1, sku=f"SKU-{n % SKUS}", quantity=1, unit_price_cents=250)
    submitted = OrderSubmitted(
        order_id=f"order-{n}",
        customer_id=f"customer-{n % 997}",
        country="United Kingdom",
        currency="GBP",
        lines=(line,),
        placed_at=None,
    )
    return Publication(submitted, idempotency_key=submitted.order_id)


async def run_orders(log: EventLog, runtime: Runtime, first: int, end: int, open_at_once: int = OPEN) -> None:
    """Place orders, so many at once, and wait until all of them have ended."""
    for start in range(first, end, open_at_once):
        await log.publish_many([order(n) for n in range(start, min(start + open_at_once, end))])
        await runtime.idle()


def cpu_s() -> float:
    """Return the CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def opened(stack: AsyncExitStack, path: Path) -> "tuple[EventLog, Runtime, Telemetry | None]":
    """Open a shop with full shelves, and with the telemetry that the environment asks for."""
    log = await stack.enter_async_context(open_log(f"sqlite:///{path}", shop))
    ports = {"gateway": InstantGateway(), "carrier": InstantCarrier()}
    telemetry = stack.enter_context(telemetry_as_told(log))
    observer = None if telemetry is None else telemetry.recorder
    runtime = await stack.enter_async_context(Runtime(log, ports=ports, observer=observer))
    if telemetry is not None:
        telemetry.observe(log, runtime, RuntimeConfig())
    await stock_up(log)
    await runtime.idle()
    return log, runtime, telemetry


async def measure(path: Path, orders: int, already: list[int]) -> dict[str, list[float]]:
    """Run the orders and return what they cost, once for each count of orders that are there already."""
    found: dict[str, list[float]] = {"sagas_per_s": [], "cpu_s_per_1000": [], "peak_mb": [], "records_per_commit": []}
    async with AsyncExitStack() as stack:
        log, runtime, telemetry = await opened(stack, path)
        if telemetry is not None:
            telemetry.flush()  # the first export makes what all others use
        placed = 0
        for at in already:
            await run_orders(log, runtime, placed, at)
            records, commits = await size(log), commits_of(log)
            cpu, began = cpu_s(), time.perf_counter()
            await run_orders(log, runtime, at, at + orders)
            if telemetry is not None:
                telemetry.flush()
            seconds, used = time.perf_counter() - began, cpu_s() - cpu
            placed = at + orders
            found["sagas_per_s"].append(orders / seconds)
            found["cpu_s_per_1000"].append(used / orders * 1_000)
            found["peak_mb"].append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            found["records_per_commit"].append((await size(log) - records) / (commits_of(log) - commits))
    return found


def telemetry_as_told(log: EventLog) -> "AbstractContextManager[Telemetry | None]":
    """Return the telemetry that the environment asks for; without any, OpenTelemetry is not even imported."""
    options = telemetry_options()
    metrics = options.metrics_place is not None
    if not (options.traces or metrics):
        return nullcontext()
    from eventlib.telemetry.process import telemetry_of

    return telemetry_of(log.choreography, log.port.url, options, metrics=metrics)


async def size(log: EventLog) -> int:
    """Count the records that were ever written, changelogs and journals included."""
    topics = await log.port.topics()
    return sum([await log.port.end(topic.name, p) for topic in topics.values() for p in range(topic.partitions)])


def commits_of(log: EventLog) -> int:
    """Count this process' transactions."""
    assert isinstance(log.port, SqliteLog)
    return log.port.commits


if __name__ == "__main__":
    collect_garbage_seldom()
    path, orders, *already = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(Path(path), int(orders), [int(at) for at in already] or [0]))))
