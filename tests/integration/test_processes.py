"""Several processes on one embedded log: services apart, a stand-by that takes over, and somebody who only publishes."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from eventlib import EventLog, open_log
from services import shop
from services.order.events import OrderLine, OrderSubmitted, ProductListed
from tests.saga.fleet import SERVICES, Fleet, summary_of
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.shop_runs import ShopLog, order_file

STOCK_UNITS = 150
LONGEST_S = 120.0
TAKEN_OVER_S = 10.0  # it takes less than one; this machine may be busy
ENDS = {"OrderCompleted", "OrderCancelled"}


async def types(log: EventLog, topic: str) -> list[tuple[str, str]]:
    """Return the key and type of each record of a topic."""
    found = list[tuple[str, str]]()
    for partition in range(8):
        records = await log.port.read(topic, partition, 0, 1_000_000)
        found += [((record.key or b"").decode(), record.type or "") for record in records]
    return found


@asynccontextmanager
async def opened(log: ShopLog) -> AsyncIterator[EventLog]:
    async with open_log(log.url, shop) as found, asyncio.timeout(LONGEST_S):
        yield found


async def until(log: EventLog, has_come: Callable[[list[tuple[str, str]]], bool]) -> None:
    """Wait until what there is of `orders` is enough."""
    while not has_come(await types(log, "orders")):
        await asyncio.sleep(0.02)


def placed(*order_ids: str) -> Callable[[list[tuple[str, str]]], bool]:
    """Return what tells that orders were placed."""
    wanted = {(order_id, "OrderPlaced") for order_id in order_ids}
    return wanted.issubset


def order(order_id: str) -> OrderSubmitted:
    line = OrderLine(line_no=1, sku="A", quantity=1, unit_price_cents=100)
    return OrderSubmitted(
        order_id=order_id, customer_id=None, country="EIRE", currency="GBP", lines=(line,), placed_at=None
    )


async def test_services_apart_and_an_import_beside_them_keep_the_laws(tmp_path: Path) -> None:
    log, file = ShopLog(tmp_path), order_file(tmp_path, 100)
    wanted = read_file(file)
    importing = ("import", str(file), "--json", "--stock", str(STOCK_UNITS), "--place-only")
    with Fleet(log, {"SHOP_DECLINE": "0.05", "SHOP_UNDELIVERABLE": "0.05", "SHOP_GATEWAY_TIMEOUT": "0.1"}) as fleet:
        fleet.start_services("goods", "--service", "order", "--service", "stock")
        fleet.start_services("outward", "--service", "payment", "--service", "dispatch")
        fleet.ready("goods")
        fleet.ready("outward")
        fleet.start("placing", *SERVICES, *importing)
        assert summary_of(fleet.result("placing"))["placed"] == len(wanted.orders)
        async with opened(log) as looking:
            await until(looking, lambda found: sum(kind in ENDS for _, kind in found) >= len(wanted.orders))
        # One half is stopped and started while the other one goes on.
        fleet.stop("goods")
        fleet.stop("outward")
    check_laws(wanted, History(log.tail()), log.ledger, STOCK_UNITS)


async def test_a_killed_process_is_taken_over_within_seconds_by_its_stand_by(tmp_path: Path) -> None:
    log = ShopLog(tmp_path)
    with Fleet(log) as fleet:
        for name in ("first", "second"):
            fleet.start_services(name, "--service", "order", "--service", "stock")
            fleet.ready(name)
        async with opened(log) as looking:
            await looking.publish(order("before"))
            await until(looking, placed("before"))
            for number, (killed, other) in enumerate([("first", "second"), ("second", "first")]):
                fleet.kill(killed)
                began = time.monotonic()
                names = [f"{number}-{n}" for n in range(20)]  # for tasks of every partition
                for name in names:
                    await looking.publish(order(name))
                await until(looking, placed(*names))
                took = time.monotonic() - began
                print(f"{other} took over from {killed} in {took:.2f} s")
                assert took < TAKEN_OVER_S
                fleet.start(killed)
                fleet.ready(killed)
        fleet.stop("first", "second")


async def test_publishing_beside_a_busy_process_waits_for_moments_only(tmp_path: Path) -> None:
    log, file = ShopLog(tmp_path), order_file(tmp_path, 300)
    listed = ProductListed(sku="Z", description="a bystander", unit_price_cents=1, currency="GBP")
    with Fleet(log) as fleet:
        fleet.start("placing", *SERVICES, "import", str(file), "--json", "--place-only")
        fleet.result("placing")
        fleet.start_services("busy")
        async with opened(log) as publishing:
            await until(publishing, bool)
            before = len(await types(publishing, "stock.lines"))
            waited = list[float]()
            for _ in range(200):
                began = time.perf_counter()
                await publishing.publish(listed)
                waited.append(time.perf_counter() - began)
                await asyncio.sleep(0.003)
            after = len(await types(publishing, "stock.lines"))
        fleet.stop("busy")
    p50, p99 = statistics.median(waited), statistics.quantiles(waited, n=100)[98]
    print(f"publish beside {after - before} lines answered: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
    assert after - before > 500, "the other process was not busy"
    assert max(waited) < 5
