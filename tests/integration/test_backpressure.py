"""A service that cannot keep up lags behind, and nothing grows with what it has before it: neither it nor the others."""

import asyncio
import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from services import shop as the_shop
from tests.ports import free_port
from tests.saga.fleet import Fleet, importing, outside_at
from tests.saga.following import Endings
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.shop_runs import ShopLog

SKUS, STOCK_UNITS = 40, 100_000
PENDING, BATCH, TASKS = 5, 5, 8
FEW, MANY = 200, 1_000
MOST_GROWTH = 1.25
PATIENCE_S = 150.0
BOUNDS = {
    "EVENTLIB_PENDING_EFFECTS": str(PENDING),
    "EVENTLIB_BATCH": str(BATCH),
    "EVENTLIB_CACHED_ENTRIES": "20",
    "EVENTLIB_GRACE_S": "0.5",
}


@dataclass(frozen=True)
class Peaks:
    """The most memory (kB) that payment has had, which cannot keep up, and the others, which can."""

    payment: int
    others: int


@pytest.mark.slow
def test_who_lags_and_who_does_not_grow_with_the_backlog(tmp_path: Path, broker: Cluster) -> None:
    few, many = [_lagging(tmp_path / f"{orders}", broker, orders) for orders in (FEW, MANY)]
    print(few, many)
    assert many.payment < few.payment * MOST_GROWTH
    assert many.others < few.others * MOST_GROWTH


def _lagging(directory: Path, broker: Cluster, orders: int) -> Peaks:
    """Let payment wait for a gateway that hangs, with so many orders before it; then let it catch up."""
    directory.mkdir()
    shop, ledger = ShopLog(directory, f"{broker.url}/?prefix={token_hex(4)}."), directory / "simulators.db"
    file, outside = _order_file(directory, orders), f"http://127.0.0.1:{free_port()}"
    environment = outside_at(outside) | BOUNDS | {"EVENTLIB_STATE_DIR": str(directory / "state")}
    with Fleet(shop, environment) as fleet, Endings(shop.url) as endings:
        fleet.start_simulators(outside, ledger, {}, seed=3)
        fleet.start_services("payment", "--service", "payment")
        fleet.start_services("others", "--service", "order", "--service", "stock", "--service", "dispatch")
        for name in ("payment", "others"):
            fleet.ready(name)
        stocking = _order_file(directory, SKUS, cancels=True)  # nothing to place, and something to deliver
        fleet.start("stocking", *importing(shop, stocking, STOCK_UNITS), "--place-only")
        fleet.result("stocking")
        endings.wait(0, SKUS, longest_s=PATIENCE_S)
        fleet.pause("simulators")
        fleet.start("placing", *importing(shop, file, STOCK_UNITS), "--place-only")
        fleet.result("placing")
        _until_said(shop.url, "stock", "StockReserved", orders)
        time.sleep(2)
        asked = _said(shop.url, "payments")["ChargeRequested"]
        assert asked <= TASKS * (PENDING + BATCH) < FEW, "it takes no more input than it may leave unanswered"
        peaks = Peaks(_peak_kb(fleet.pid("payment")), _peak_kb(fleet.pid("others")))
        fleet.go_on("simulators")
        endings.wait(orders, 2 * SKUS, longest_s=PATIENCE_S)
        fleet.stop("payment", "others", "simulators")
    check_laws(read_file(file), History(shop.tail()), ledger, 2 * STOCK_UNITS)
    return peaks


def _order_file(directory: Path, orders: int, *, cancels: bool = False) -> Path:
    path = directory / f"orders-{cancels}.ndjson"
    with path.open("w", encoding="utf-8") as file:
        for number in range(orders):
            line = {"sku": f"S{number % SKUS}", "description": "a thing", "quantity": 1, "unit_price": "2.50"}
            order = {"order_id": f"B-{number:05}", "placed_at": "2010-12-01T08:26:00Z", "customer_id": None}
            file.write(json.dumps({**order, "country": "EIRE", "cancels": cancels, "lines": [line]}) + "\n")
    return path


def _until_said(url: str, topic: str, kind: str, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (so_far := _said(url, topic)[kind]) < count:
        assert time.monotonic() < deadline, f"{so_far} of {count} {kind}"
        time.sleep(0.5)


def _said(url: str, topic: str) -> Counter[str]:
    async def read() -> Counter[str]:
        async with open_log(url, the_shop, read_only=True) as log:
            found = [await log.port.read(topic, partition, 0, 100_000) for partition in range(TASKS)]
            return Counter(record.type or "" for records in found for record in records)

    return asyncio.run(read())


def _peak_kb(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1])
