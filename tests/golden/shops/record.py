"""Records a shop's log by the code of a checkout, and what that code's commands print of it.

`python tests/golden/shops/record.py CHECKOUT URL WORK` runs CHECKOUT's commands in its own environment, on an empty log,
and writes WORK/printed.json.gz. A recorded log is never made anew: it stands for what is on the disks of those who ran
that code. On it are orders that ended in each way, calls without an answer, inputs that were parked, edited, discarded
and skipped, a rerun that was switched to, owners that were killed, and orders under way.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CASES = {
    "SHOP_DECLINE": "0.1",
    "SHOP_UNDELIVERABLE": "0.1",
    "SHOP_GATEWAY_TIMEOUT": "0.3",
    "SHOP_SEED": "7",
    "TZ": "UTC",
}
MAKE_ORDERS = """
import json, sys
from services.demo import order_lines
for line in order_lines(int(sys.argv[2]), 5):
    if line.startswith('{"order_id":"D') and int(line[16:22]) > int(sys.argv[1]):
        print(line)
"""
PUT_BROKEN = """
import asyncio, sys
from eventlib import open_log
from eventlib.event import contract_of
from eventlib.log.port import Record
from services import shop
from services.order.events import OrderSubmitted

async def put():
    topic = contract_of(OrderSubmitted).topic
    async with open_log(sys.argv[1], shop) as log:
        for key in sys.argv[2:]:
            place = topic.name, topic.partition_of(key.encode())
            broken = Record(*place, -1, 1_790_000_000_000, key.encode(), b"?", id=f"broken-{key}", type="OrderSubmitted")
            await log.port.append([broken])

asyncio.run(put())
"""
PRINT_TABLE = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
files = sorted(Path(sys.argv[1]).glob(f"versions/*/{sys.argv[2]}/*.parquet"))
rows = [row for file in files for row in pq.read_table(file).to_pylist()]
print("\\n".join(sorted(map(repr, rows))))
"""
TABLES = (
    "dispatches",
    "order_lines",
    "orders",
    "payments",
    "saga_outcomes",
    "saga_steps",
    "stock_levels",
    "stock_movements",
)
GOOD = {
    "order_id": "G-edited",
    "customer_id": None,
    "country": "France",
    "currency": "GBP",
    "lines": [{"line_no": 1, "sku": "20550", "quantity": 2, "unit_price_cents": 85}],
    "placed_at": None,
}


class Checkout:
    """The code that records: its commands, on one log."""

    def __init__(self, place: Path, url: str, work: Path) -> None:
        self.place, self.url, self.work = place, url, work
        self.environment = {**os.environ, **CASES, "EVENTLIB_LOG": url, "EVENTLIB_STATE_DIR": str(work / "state")}

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,), given: str = "") -> str:
        """Run Python with these arguments to its end, and return what it prints."""
        print("$", " ".join(arguments)[:150], flush=True)
        done = subprocess.run(
            [self.place / ".venv/bin/python", *arguments],
            cwd=self.place,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            sys.exit(f"{done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def eventlib(self, *arguments: str, codes: tuple[int, ...] = (0,), given: str = "") -> str:
        """Run a command of `eventlib`."""
        return self.run("-m", "eventlib", *arguments, codes=codes, given=given)

    @contextmanager
    def running(self, *options: str, last: signal.Signals = signal.SIGTERM) -> Iterator[None]:
        """Run the services; they end by a signal."""
        command = [str(self.place / ".venv/bin/python"), "-m", "eventlib", "run", *options]
        process = subprocess.Popen(command, cwd=self.place, env=self.environment)
        try:
            yield
        finally:
            process.send_signal(last)
            process.wait()

    def wait(self, *arguments: str, has: str) -> None:
        """Wait until a command prints something."""
        while has not in self.eventlib(*arguments, codes=(0, 1)):
            time.sleep(0.5)

    def place_orders(self, first: int, last: int, *options: str) -> None:
        """Import orders of the demonstration."""
        file = self.work / f"orders-{last}.ndjson"
        file.write_text(self.run("-c", MAKE_ORDERS, str(first), str(last)))
        self.run("-m", "services", "import", str(file), "--stock", "40", *options, codes=(0, 1))


def make(shop: Checkout) -> None:
    """Have everything happen on the log."""
    shop.place_orders(0, 22)
    shop.place_orders(22, 28, "--place-only")
    with shop.running(last=signal.SIGKILL):
        time.sleep(2.5)
    shop.run("-c", PUT_BROKEN, shop.url, "G-edited", "G-discarded", "G-parked")
    shop.eventlib("publish", "CancelSubmitted", "--data", json.dumps({"order_id": submitted(shop)[-1]}))
    shop.eventlib("publish", "CancelSubmitted", "--data", '{"order_id": "never-placed", "reason": "mistake"}')
    skipped = {**GOOD, "order_id": "G-skipped"}
    shop.eventlib("publish", "OrderSubmitted", "--data", json.dumps(skipped), "--idempotency-key", "skip")
    inputs = map(json.loads, shop.eventlib("tail", "--json", "order.requests").splitlines())
    (id_,) = [each["id"] for each in inputs if each["key"] == "G-skipped"]
    shop.eventlib("reset", "order", "--skip", id_, "--reason", "a test order", "--yes")
    with shop.running():
        shop.wait("parked", "list", "--json", has="G-parked")
        given = ("--data", json.dumps(GOOD), "--reason", "typed", "--by", "ada")
        shop.eventlib("parked", "edit", "order", "G-edited", *given)
        shop.eventlib("parked", "discard", "order", "G-discarded", "--reason", "a test order", "--by", "ada")
        shop.eventlib("parked", "retry", "order", "G-parked", "--by", "ada", codes=(0, 1))
        shop.wait("saga", "G-edited", has="ended with")
        shop.wait("saga", "never-placed", has="CancelSubmitted")
    shop.eventlib("rerun", "payment", "--into", "payment-2")
    shop.eventlib("rerun", "payment", "--switch", "payment-2", "--reason", "to be on the safe side", "--yes")
    with shop.running(last=signal.SIGKILL):
        shop.place_orders(28, 32, "--place-only")
        time.sleep(1)
    shop.eventlib("rerun", "dispatch", "--into", "dispatch-2")
    shop.place_orders(32, 36, "--place-only")
    with shop.running("--service", "order", "--service", "stock"):
        time.sleep(4)
    shop.place_orders(36, 38, "--place-only")


def submitted(shop: Checkout) -> list[str]:
    """Return the orders of the demonstration that are on the log, in their order."""
    lines = map(json.loads, shop.eventlib("tail", "--json", "order.requests").splitlines())
    return sorted({each["key"] for each in lines if each["key"].startswith("D") and each["type"] == "OrderSubmitted"})


def asked(shop: Checkout) -> Iterator[list[str]]:
    """Yield the commands whose output is kept."""
    names = [each["topic"] for each in map(json.loads, shop.eventlib("topics", "--json").splitlines())]
    yield from (["tail", "--json", name] for name in sorted(names))
    orders = submitted(shop)
    for key in ("G-edited", "G-parked", "G-skipped", orders[0], orders[-8], orders[-4], orders[-1]):
        yield ["saga", "--json", key]
        for decider in ("order", "payment"):
            yield ["state", "--json", decider, key]
            yield ["history", "--json", decider, key]
    yield from (["state", "--json", "shelf", "20000"], ["history", "--json", "shelf", "20000"])
    yield from (["parked", "list", "--json"], ["parked", "show", "G-parked", "--json"])
    yield from (["replay", "--json"], ["replay", "--in-flight", "--json"], ["rerun", "--list", "--json"])


def main(place: Path, url: str, work: Path) -> None:
    """Make the log, and write what its code prints of it."""
    shop = Checkout(place, url, work)
    make(shop)
    printed = {" ".join(each): shop.eventlib(*each, codes=(0, 1)) for each in asked(shop)}
    shop.run("-m", "analytics", "connectors")
    printed["audit --json"] = shop.run("-m", "analytics", "audit", "--json", codes=(0, 1))
    shop.run("-m", "analytics", "rebuild", "--out", str(work / "tables"))
    for table in TABLES:
        printed[f"table {table}"] = shop.run("-c", PRINT_TABLE, str(work / "tables"), table)
    (work / "printed.json.gz").write_bytes(gzip.compress(json.dumps(printed, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]).resolve())
