"""A shop whose processes are replaced while orders come in."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from eventlib.devtools.kafka import Cluster
from services import shop as the_shop
from tests.ports import free_port
from tests.saga.fleet import Fleet, outside_at, wait_for
from tests.saga.following import Endings
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.paced import PacedImport
from tests.saga.shop_runs import EVENTLIB, ShopLog, order_file

NAMES = tuple(service.name for service in the_shop.services)
FAULTS = {"gateway": {"decline": 0.1}, "carrier": {"undeliverable": 0.1}}
STOCK_UNITS = 10_000
ORDERS_PER_S = 20.0
PART = 20
"""How many orders come for each step of an upgrade; as many come before it, for comparison."""

PATIENCE_S = 120.0


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

    def start(self, *names: str, **variables: str) -> None:
        """Start processes `<service>[+<service>…] <which>`, and wait until they are ready.

        Each has a state directory of its own, and the variables that are given.
        """
        ports = {name: free_port() for name in names}
        for name, port in ports.items():
            given = {**variables, "EVENTLIB_STATE_DIR": str(self._directory / "state" / name)}
            self._start(name, port, given)
        for name, port in ports.items():
            self._fleet.ready(name)
            wait_for(f"http://127.0.0.1:{port}/readyz")
        self._live |= {*names}

    def _start(self, name: str, port: int, variables: Mapping[str, str]) -> None:
        services = [word for service in name.partition(" ")[0].split("+") for word in ("--service", service)]
        environment = [f"{variable}={value}" for variable, value in variables.items()]
        self._fleet.start(name, "env", *environment, EVENTLIB, "run", *services, "--metrics-port", str(port))

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

    def check(self) -> list[str]:
        """Check the invariants, and return the lines of the log."""
        lines = [*self.log.tail()]
        check_laws(self._wanted, History(lines), self._ledger, STOCK_UNITS)
        assert self.log.parked() == []
        return lines
