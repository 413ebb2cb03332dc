"""A rolling upgrade of all services while orders come in: tasks are handed over, and the laws hold.

What it costs an order is printed, beside what orders of the same import took that it did not concern; how long that is
depends on the machine, so no bound stands here. That tasks were let go by those who had them is checked, for half of them:
an owner that the machine keeps from letting go for seconds is rightly ended by the next one.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from statistics import median

import pytest

from eventlib.broker import Cluster
from services import shop as the_shop
from tests.saga.fleet import Fleet, free_port, outside_at, wait_for
from tests.saga.following import Endings
from tests.saga.laws import History, check_laws, read_file
from tests.saga.paced import PacedImport
from tests.saga.shop_runs import EVENTLIB, ShopLog, order_file
from tests.saga.waits import Waits, handovers

NAMES = [service.name for service in the_shop.services]
TASKS = sum(service.partitions for service in the_shop.services)
FAULTS = {"gateway": {"decline": 0.1}, "carrier": {"undeliverable": 0.1}}
STOCK_UNITS = 10_000
ORDERS_PER_S = 20.0
PART = 20
"""How many orders come for each step of an upgrade; as many come before it, for comparison."""

PATIENCE_S = 120.0


def test_each_service_is_replaced_its_new_process_before_its_old_one_stops(tmp_path: Path, broker: Cluster) -> None:
    shop = Upgraded(tmp_path, broker, steps=2 * len(NAMES))
    with shop.importing():
        shop.start(*(f"{name} old" for name in NAMES))
        shop.orders_come()
        for name in NAMES:
            shop.start(f"{name} new")
            shop.orders_come()  # while the new one gets its share
            shop.orders_come()
            shop.stop(f"{name} old")
    shop.check(handed_over=TASKS)


@pytest.mark.slow
def test_each_process_of_two_is_replaced_as_a_stateful_set_does_it(tmp_path: Path, broker: Cluster) -> None:
    pairs = [[f"{name} {number}" for number in (1, 2)] for name in NAMES]
    shop = Upgraded(tmp_path, broker, steps=2 * 2 * len(NAMES))
    with shop.importing():
        shop.start(*(each for pair in pairs for each in pair))
        shop.orders_come()
        for each in (each for pair in pairs for each in reversed(pair)):
            shop.orders_come()
            shop.stop(each)
            shop.start(each)
            shop.orders_come()
    shop.check(handed_over=TASKS)


class Upgraded:
    """A shop, an import into it that goes on step by step, and processes that come and go meanwhile."""

    def __init__(self, directory: Path, broker: Cluster, steps: int) -> None:
        self.log = ShopLog(directory, f"{broker.url}/?prefix={token_hex(4)}.")
        self._directory = directory
        self._file = order_file(directory, PART * (steps + 1) * 5 // 4)  # some are refused
        self._wanted = read_file(self._file)
        self._ledger = directory / "simulators.db"
        self._outside = f"http://127.0.0.1:{free_port()}"
        self._fleet = Fleet(self.log, outside_at(self._outside))
        self._import = PacedImport(self._file, self.log.url, STOCK_UNITS, ORDERS_PER_S)
        self._live = set[str]()

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Run the outside world and the import, until all orders have ended; then stop all processes."""
        self._import.limit = 0
        with self._fleet as fleet, Endings(self.log.url) as endings:
            fleet.start_simulators(self._outside, self._ledger, FAULTS, seed=3)
            with self._import:
                yield
            endings.wait(len(self._wanted.orders), len(self._wanted.skus), longest_s=PATIENCE_S)
            fleet.stop(*self._live, "simulators")

    def start(self, *names: str) -> None:
        """Start processes `<service> <which>`, each with a state directory of its own, and wait until they are ready."""
        ports = {name: free_port() for name in names}
        for name, port in ports.items():
            state = f"EVENTLIB_STATE_DIR={self._directory / 'state' / name}"
            self._fleet.start(
                name, "env", state, EVENTLIB, "run", "--service", name.partition(" ")[0], "--metrics-port", str(port)
            )
        for name, port in ports.items():
            self._fleet.ready(name)
            wait_for(f"http://127.0.0.1:{port}/readyz")
        self._live |= {*names}

    def stop(self, name: str) -> None:
        """Stop a process as a deployment does, and wait for its end."""
        self._live.remove(name)
        began = time.monotonic()
        self._fleet.stop(name)
        print(f"{name} has stopped after {time.monotonic() - began:.1f} s")

    def orders_come(self) -> None:
        """Let the next orders be placed, and return when the first of them are on their way."""
        before = self._import.placed
        self._import.limit = before + PART
        deadline = time.monotonic() + PATIENCE_S
        while self._import.placed == before:
            assert time.monotonic() < deadline, "no orders are placed"
            time.sleep(0.02)

    def check(self, *, handed_over: int) -> None:
        """Check the laws, and that tasks were handed over; print what that has cost."""
        lines = [*self.log.tail()]
        check_laws(self._wanted, History(lines), self._ledger, STOCK_UNITS)
        assert self.log.parked() == []
        changes = [change for change in handovers(self.log.url) if change.task[0] in NAMES]
        waits = Waits.of(map(json.loads, lines))
        for what, part in (("before", slice(PART)), ("during", slice(PART, None))):
            orders, steps = waits.orders[part], waits.steps[part]
            print(
                f"{what} the upgrade: {len(orders)} orders, from request to end {median(orders):.2f} s in the middle and "
                f"{max(orders):.2f} s at most; the longest step {max(steps)[0]:.2f} s, to {max(steps)[1]}"
            )
        without = [change.without_s for change in changes if change.let_go_ms is not None]
        found = f"{len(without)} of {len(changes)} changes of owners were handed over"
        print(f"{found}; nobody had the task for {median(without):.2f} s then, {max(without):.2f} s at most")
        assert len(changes) >= handed_over
        assert len(without) > len(changes) // 2, "tasks were taken from their owners"
