"""One-line orders through the whole saga on an SQLite log; prints its figures as one JSON object.

The gateway and the carrier answer at once, from memory: what is measured is the toolkit. Run by `bench.py`, in a
process of its own: `python -m tests.performance.sagas PATH ORDERS [ALREADY]`, with ALREADY orders on the log before.
"""

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from eventlib import EventLog, Publication, Runtime, open_log
from services import shop
from services.dispatch.ports import Booked, Recalled
from services.order.events import OrderLine, OrderSubmitted
from services.payment.ports import Charged
from services.stock.events import DeliveryLine, DeliverySubmitted

SKUS = 500
CHUNK = 1_000
BACKLOG = 20_000


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
    for n in range(SKUS):
        lines = (DeliveryLine(sku=f"SKU-{n}", quantity=1_000_000),)
        await log.publish(DeliverySubmitted(delivery_id=f"D{n}", lines=lines), idempotency_key=f"D{n}")


async def place(log: EventLog, first: int, count: int) -> None:
    """Place `count` orders of one line, in chunks, as an import does."""
    for start in range(first, first + count, CHUNK):
        await log.publish_many(
            [
                Publication(
                    OrderSubmitted(
                        order_id=f"order-{n}",
                        customer_id=f"customer-{n % 997}",
                        country="United Kingdom",
                        currency="GBP",
                        lines=(OrderLine(line_no=1, sku=f"SKU-{n % SKUS}", quantity=1, unit_price_cents=250),),
                        placed_at=None,
                    ),
                    idempotency_key=f"order-{n}",
                )
                for n in range(start, min(start + CHUNK, first + count))
            ]
        )


def cpu_s() -> float:
    """Return the CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def run(path: Path, orders: int, already: int) -> dict[str, float]:
    """Run the orders and return what it cost."""
    async with open_log(f"sqlite:///{path}", shop) as log:
        ports = {"gateway": InstantGateway(), "carrier": InstantCarrier()}
        async with Runtime(log, ports=ports) as runtime:
            await stock_up(log)
            for first in range(0, already, BACKLOG):
                await place(log, first, min(BACKLOG, already - first))
                await runtime.idle()
            cpu, began = cpu_s(), time.perf_counter()
            for first in range(already, already + orders, BACKLOG):
                await place(log, first, min(BACKLOG, already + orders - first))
                await runtime.idle()
            seconds, used = time.perf_counter() - began, cpu_s() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"orders": orders, "seconds": seconds, "cpu_s": used, "peak_mb": peak}


if __name__ == "__main__":
    arguments = [*sys.argv[2:], "0"]
    print(json.dumps(asyncio.run(run(Path(sys.argv[1]), int(arguments[0]), int(arguments[1])))))
