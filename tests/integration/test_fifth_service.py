"""A fifth service on the shop's old log: nobody else is touched, all of the past counts, and what is new follows."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.commands import said

ROOT = Path(__file__).parents[2]
APP = "examples.loyalty:app"
EVENTLIB = [sys.executable, "-c", "from eventlib.cli import main; main()"]
LONGEST_S = 120.0


class Shop:
    """A log, and the commands on it; each is a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = f"sqlite:///{directory}/shop.db"
        self.environment = {**os.environ, "EVENTLIB_LOG": self.url}

    def run(self, *command: str) -> str:
        done = forked.run(command, cwd=ROOT, env=self.environment, capture_output=True, timeout=LONGEST_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def place(self, orders: range) -> None:
        """Import some orders, a few of which are declined or undeliverable; every third is a guest's."""
        path = self.directory / f"orders-{orders.start}.ndjson"
        path.write_text("".join(json.dumps(_order(number)) + "\n" for number in orders))
        faults = ["--decline", "0.2", "--undeliverable", "0.1", "--seed", "3"]
        self.run(sys.executable, "-m", "services", "import", str(path), "--json", *faults)

    def read(self, *arguments: str) -> list[dict[str, Any]]:
        printed = said(*arguments, "--json", "--app", APP, "--log", self.url)
        return [json.loads(line) for line in printed.splitlines()]

    def sizes(self) -> dict[str, int]:
        return {row["topic"]: row["records"] for row in self.read("topics")}

    def earned(self) -> Counter[str]:
        """What each customer should have: worked out from what the order service has told, by other means."""
        told = self.read("tail", "orders")
        customers = {e["data"]["order_id"]: e["data"]["customer_id"] for e in told if e["type"] == "OrderPlaced"}
        points = Counter[str]()
        for event in told:
            if event["type"] == "OrderCompleted" and customers[event["key"]] is not None:
                points[customers[event["key"]]] += event["data"]["amount_cents"] // 100
        return points

    def accounts(self) -> Counter[str]:
        """What the loyalty service says that each customer has."""
        newest = {change["key"]: change["data"] for change in self.read("tail", "loyalty.changelog")}
        mine = {key: state for key, state in newest.items() if key.startswith("state/account/")}
        return Counter({key.removeprefix("state/account/"): state["points"] for key, state in mine.items()})

    @contextmanager
    def serving(self) -> "Iterator[subprocess.Popen[bytes]]":
        """Run the fifth service alone."""
        process = forked.Popen([*EVENTLIB, "run", "--app", APP, "--service", "loyalty"], cwd=ROOT, env=self.environment)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(LONGEST_S)

    def wait_for(self, points: Counter[str]) -> None:
        """Wait until the service has caught up."""
        deadline = time.monotonic() + LONGEST_S
        while "loyalty.changelog" not in self.sizes() or self.accounts() != points:
            assert time.monotonic() < deadline, f"{self.accounts()} is not {points}"
            time.sleep(0.1)


def _order(number: int) -> dict[str, object]:
    cents = 1_000 + 37 * number
    return {
        "order_id": f"O{number}",
        "placed_at": "2026-01-01T12:00:00+00:00",
        "customer_id": None if number % 3 == 0 else f"C{number % 7}",
        "country": "France",
        "currency": "EUR",
        "cancels": None,
        "lines": [{"sku": "A", "description": "A", "quantity": 2, "unit_price": f"{cents / 100:.2f}"}],
    }


@pytest.fixture
def old_shop(tmp_path: Path) -> Shop:
    """A shop that has had its customers before anybody thought of loyalty."""
    shop = Shop(tmp_path)
    shop.place(range(60))
    return shop


def test_a_fifth_service_counts_the_past_and_follows_the_present(old_shop: Shop) -> None:
    before = old_shop.sizes()
    past = old_shop.earned()
    assert len(past) > 4
    with old_shop.serving() as first:
        old_shop.wait_for(past)
        after = old_shop.sizes()
        assert all(after[topic] == size for topic, size in before.items() if topic != "_schemas"), (
            "nobody has heard of it"
        )
        first.send_signal(signal.SIGKILL)
        first.wait(LONGEST_S)
    old_shop.place(range(60, 90))
    with old_shop.serving():
        old_shop.place(range(90, 100))
        everything = old_shop.earned()
        assert everything.total() > past.total()
        old_shop.wait_for(everything)
    told = old_shop.read("tail", "points")
    assert len(told) == len({event["id"] for event in told})
    assert [e for e in old_shop.read("parked", "list") if e["service"] == "loyalty"] == []
    assert old_shop.read("state", "account", "C1")[0]["state"] == {"points": everything["C1"]}
