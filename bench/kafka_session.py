"""A system under measurement: its processes, what they use, and orders that are placed and watched from outside.

Who places and who watches is the same for every system, in another process than theirs: orders are written as they
stand on the log, and an order's end is when a reader of committed records gets it.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.kafka_systems import PARTITIONS, STEPS, TOPICS, Place, System
from eventlib.devtools.kafka import Cluster
from eventlib.log.base import Log, Reader
from eventlib.log.open import open_port

ROOT = Path(__file__).resolve().parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_AT_ONCE = 2_000
_STALLED_S = 120.0  # a backlog goes through in stages: it is long before the first order ends
_STOPS_S = 30.0


class Stalled(Exception):
    """A system has ended, or does nothing any more; the end of what it has said is in it."""


class Session:
    """A system that runs: orders are numbered on from one measurement to the next."""

    def __init__(self, system: System, port: Log, processes: "Processes", broker: Cluster, reader: Reader) -> None:
        self._system = system
        self._port = port
        self._processes = processes
        self._broker = broker
        self._reader = reader
        self._asked = 0
        self._ended = 0
        self._submitted = dict[bytes, float]()
        self._placed = dict[bytes, float]()
        self.latencies = list[tuple[float, float]]()

    async def warm_up(self, orders: int) -> None:
        """Put units on the shelves, run orders, and see that each has led to each of the twelve events once."""
        await self._port.append(self._system.deliveries())
        await self.backlog(orders)
        await self._check_steps()

    async def backlog(self, orders: int) -> dict[str, float]:
        """Write orders as fast as the brokers take them, and wait for the last one's end."""
        records = [self._system.order(n) for n in self._numbers(orders)]
        began, cpu, broker_cpu = time.perf_counter(), self._processes.cpu_s(), broker_cpu_s(self._broker)
        for start in range(0, orders, _AT_ONCE):
            await self._port.append(records[start : start + _AT_ONCE])
        await self._watch()
        seconds = time.perf_counter() - began
        used, broker_used = self._processes.cpu_s() - cpu, broker_cpu_s(self._broker) - broker_cpu
        thousands = orders / 1_000
        return {
            "sagas_per_s": orders / seconds,
            "cpu_s_per_1000": used / thousands,
            "sagas_per_cpu_s": orders / used,
            "broker_cpu_s_per_1000": broker_used / thousands,
        }

    async def steadily(self, rate: int, seconds: int) -> dict[str, float]:
        """Place `rate` orders a second, each for itself, and see how long each takes; the first third warms up."""
        orders = rate * seconds
        records = [self._system.order(n) for n in self._numbers(orders)]
        self.latencies.clear()
        began, cpu, broker_cpu = time.perf_counter(), self._processes.cpu_s(), broker_cpu_s(self._broker)
        watching = asyncio.create_task(self._watch())
        writing = set[asyncio.Task[Any]]()
        for n, record in enumerate(records):
            await asyncio.sleep(max(0.0, began + n / rate - time.perf_counter()))
            self._submitted[record.key or b""] = time.perf_counter()
            writing.add(asyncio.create_task(self._port.append([record])))
        await watching
        took = time.perf_counter() - began
        await asyncio.gather(*writing)
        since = self.latencies[orders // 3 :]
        placed, submitted = (quantiles([each[i] * 1_000 for each in since], n=100) for i in (0, 1))
        return {
            "p50_ms": placed[49],
            "p99_ms": placed[98],
            "from_request_p50_ms": submitted[49],
            "from_request_p99_ms": submitted[98],
            "cores": (self._processes.cpu_s() - cpu) / took,
            "broker_cores": (broker_cpu_s(self._broker) - broker_cpu) / took,
        }

    def cpu_s(self) -> float:
        """Return the CPU seconds of its processes so far."""
        return self._processes.cpu_s()

    def memory_mb(self) -> float:
        """Return what its processes have in memory."""
        return self._processes.memory_mb()

    def _numbers(self, orders: int) -> range:
        first, self._asked = self._asked, self._asked + orders
        return range(first, self._asked)

    async def _watch(self) -> None:
        """Wait until every order that was asked for has ended."""
        heard = time.monotonic()
        kind = self._system.kind
        while self._ended < self._asked:
            records = await self._reader.poll(2_000, 1.0)
            now = time.perf_counter()
            for record in records:
                if (said := kind(record)) == "OrderPlaced":
                    self._placed[record.key or b""] = now
                elif said == "OrderCompleted":
                    self._end(record.key or b"", now)
            heard = time.monotonic() if records else heard
            if self._processes.ended() or time.monotonic() - heard > _STALLED_S:
                raise Stalled(
                    f"{self._asked - self._ended} orders are missing; so far: {dict(await self._steps())}\n"
                    f"{self._processes.tail()}"
                )

    def _end(self, key: bytes, now: float) -> None:
        self._ended += 1
        placed, submitted = self._placed.pop(key), self._submitted.pop(key, now)
        self.latencies.append((now - placed, now - submitted))

    async def _check_steps(self) -> None:
        """See that each order so far has led to the same twelve events."""
        await asyncio.sleep(2)  # what is said last may come after an order's end: that its line has left the house
        seen = await self._steps()
        if any(seen[step] != self._ended for step in STEPS):
            raise Stalled(f"{self._ended} orders have led to {dict(seen)}, not to as many of each")

    async def _steps(self) -> Counter[str | None]:
        """Count the events that have been said so far."""
        places = [(topic, p) for topic in TOPICS for p in range(PARTITIONS)]
        ends = {place: await self._port.end(*place) for place in places}
        reader = self._port.reader(dict.fromkeys(places, 0))
        seen = Counter[str | None]()
        while any(reader.position(place) < end for place, end in ends.items()):
            seen.update(map(self._system.kind, await reader.poll(5_000, 5.0)))
        await reader.close()
        return seen


class Processes:
    """A system's processes, with those that they start."""

    def __init__(self, commands: Sequence[Sequence[str]], directory: Path) -> None:
        self._said = directory / "said"
        environment = {**os.environ, "EVENTLIB_STATE_DIR": str(directory / "state"), "PYTHONPATH": str(ROOT)}
        with self._said.open("ab") as said:
            self._running = [
                subprocess.Popen(each, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=said, stderr=said)
                for each in commands
            ]

    def cpu_s(self) -> float:
        """Return the CPU seconds of all so far; those of processes that have ended count if their parent waited."""
        return sum(sum(map(int, _stat(pid)[11:15])) for pid in self._pids()) / _TICKS

    def memory_mb(self) -> float:
        """Return what all have in memory."""
        return sum(int(_stat(pid)[21]) for pid in self._pids()) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def ended(self) -> bool:
        """Tell whether one of them has ended."""
        return any(process.poll() is not None for process in self._running)

    def tail(self) -> str:
        """Return the end of what they have said."""
        return "\n".join(self._said.read_text(errors="replace").splitlines()[-30:])

    def stop(self) -> None:
        """End them as a person does, and those that do not end, at once."""
        for process in self._running:
            process.terminate()
        until = time.monotonic() + _STOPS_S
        for process in self._running:
            try:
                process.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def _pids(self) -> list[int]:
        found = [process.pid for process in self._running if process.poll() is None]
        for pid in found:  # it grows while it is read: children's children come, too
            tasks = Path(f"/proc/{pid}/task")
            found += [int(child) for each in tasks.iterdir() for child in (each / "children").read_text().split()]
        return found


@asynccontextmanager
async def running(system: System, broker: Cluster, prefix: str) -> AsyncIterator[Session]:
    """Start a system on a broker, with topics of its own; end it, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="eventlib-bench-") as directory:
        place = Place(broker.bootstrap, prefix, Path(directory))
        port = await open_port(place.url)
        try:
            await system.prepare(port)
            reader = port.reader({("orders", p): 0 for p in range(PARTITIONS)})
            processes = Processes(system.commands(place), place.directory)
            try:
                yield Session(system, port, processes, broker, reader)
            finally:
                processes.stop()
                await reader.close()
        finally:
            await port.close()


def broker_cpu_s(broker: Cluster) -> float:
    """Return the CPU seconds of the broker so far."""
    return sum(map(int, _stat(broker.nodes[0].pid or 0)[11:13])) / _TICKS


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return ["0"] * 22  # it has just ended
