"""Faults under a shop on Kafka: its workers, the nodes of the cluster and the network, each with a seed of its own.

Two threads, one for workers and their network and one for nodes, do what their schedules say, one fault after the other;
after each of them, some order has to end before the next comes. A schedule is made from its seed alone; when a fault
hits is up to the machine.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.client import GROUP, TRANSACTION
from eventlib.log.kafka.client import Cluster as Brokers
from eventlib.log.kafka.options import parse_url
from services import shop
from tests.saga.fleet import Fleet
from tests.saga.network import Cut, Network

NEAR = ("one", "two")
FAR = "far"
GUEST = "guest"
SESSION_S = 6.0
_LIVES_S = 120.0

_ON_WORKERS = ("kill", "kill", "zombie", "zombie and kill", "hang", "leave", "guest", "guest killed", "cut", "cut")
_ON_NODES = ("group coordinator restarts", "controller restarts", "leader killed", "coordinator killed", "leader hangs")


@dataclass(frozen=True)
class Chaos:
    """How much of it: orders, how fast they are placed, and how often workers and nodes are hit."""

    seed: int
    orders: int
    orders_per_s: float
    on_workers: int
    on_nodes: int


@dataclass
class Attack:
    """Hits a fleet and a cluster, and counts how often, and how often in vain: when no order was in flight any more.

    `longest_s` is how long the shop took at most to end an order again.
    """

    fleet: Fleet
    cluster: Cluster
    network: Network
    seed: int
    placed: Callable[[], int]
    ended: Callable[[], int]
    hits: Counter[str] = field(default_factory=Counter)
    in_vain: int = 0
    longest_s: float = 0.0

    def run(self, on_workers: int, on_nodes: int) -> None:
        """Do so many faults of each kind; every kind comes before one comes again."""
        with ThreadPoolExecutor(2) as threads:
            lanes = [
                threads.submit(self._lane, on_workers, _ON_WORKERS, self._hit_worker),
                threads.submit(self._lane, on_nodes, _ON_NODES, self._hit_node),
            ]
        for lane in lanes:
            lane.result()

    def _lane(self, faults: int, kinds: Sequence[str], hit: Callable[[str, Random], None]) -> None:
        random = Random(f"{self.seed} {kinds[0]}")
        due = list[str]()
        for _ in range(faults):
            due = due or random.sample(kinds, len(kinds))
            kind = due.pop()
            self.in_vain += not self.in_flight()
            before = self.ended()
            hit(kind, random)
            self.hits[kind] += 1
            time.sleep(random.uniform(0.2, 1.5))
            self._until_more_have_ended(before, kind)

    def in_flight(self) -> int:
        """Return how many orders are placed and have not ended."""
        return self.placed() - self.ended()

    def _until_more_have_ended(self, before: int, kind: str) -> None:
        began = time.monotonic()
        while self.ended() <= before and self.in_flight():
            assert time.monotonic() < began + _LIVES_S, f"after {kind}, nothing ends any more"
            time.sleep(0.05)
        recovered_s = time.monotonic() - began
        self.longest_s = max(self.longest_s, recovered_s)

    def _say(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} seed {self.seed}, {self.in_flight()} in flight: {what}", flush=True)

    # --- workers

    def _hit_worker(self, kind: str, random: Random) -> None:
        fleet, name = self.fleet, random.choice((*NEAR, FAR))
        away_s = random.uniform(0.3, 3.0)
        self._say(f"{kind}: {name}, {away_s:.1f} s")
        match kind:
            case "kill":
                fleet.kill(name)
                time.sleep(away_s)
                fleet.start(name)
            case "zombie" | "zombie and kill":
                self._zombie(name, away_s, random, kills=kind != "zombie")
            case "hang":
                fleet.pause(name)
                time.sleep(away_s)
                fleet.go_on(name)
            case "leave":
                fleet.stop(name)
                time.sleep(away_s)
                fleet.start(name)
            case "guest" | "guest killed":
                fleet.start_services(GUEST)
                fleet.ready(GUEST)
                time.sleep(away_s)
                (fleet.kill if kind == "guest killed" else fleet.stop)(GUEST)
            case _:
                self._cut(random)

    def _zombie(self, name: str, more_s: float, random: Random, *, kills: bool) -> None:
        """Stop a worker for longer than the group waits for it, and wake it up while another one has its tasks."""
        self.fleet.pause(name)
        if kills:
            other = random.choice([each for each in (*NEAR, FAR) if each != name])
            self.fleet.kill(other)
            self.fleet.start(other)
        time.sleep(SESSION_S + more_s)
        self.fleet.go_on(name)

    def _cut(self, random: Random) -> None:
        cut, seconds, reset = random.choice([*Cut]), random.uniform(0.5, 9.0), random.random() < 0.5
        self._say(f"{cut.value} to {FAR} for {seconds:.1f} s{', and then it is reset' if reset else ''}")
        self.network.cut(cut)
        time.sleep(seconds)
        self.network.mend(reset=reset)

    # --- nodes

    def _hit_node(self, kind: str, random: Random) -> None:
        node, away_s = self._victim(kind, random), random.uniform(0.3, 4.0)
        self._say(f"{kind}: node {node}, {away_s:.1f} s")
        match kind:
            case "leader hangs":
                self.cluster.pause(node)
                time.sleep(2 * away_s)
                self.cluster.resume(node)
            case "leader killed" | "coordinator killed":
                self.cluster.kill(node)
                time.sleep(away_s)
                self.cluster.restart(node)
            case _:
                self.cluster.restart(node)

    def _victim(self, kind: str, random: Random) -> int:
        service = random.choice(shop.services)
        if kind == "controller restarts":
            return self.cluster.controller() or 1
        return asyncio.run(self._found(kind, service.name, random.randrange(service.partitions)))

    async def _found(self, kind: str, service: str, partition: int) -> int:
        """Return the node that leads a partition, or coordinates a service's group or a task's transactions."""
        brokers = Brokers(*parse_url(self.fleet.shop.url))
        await brokers.start()
        prefix = f"{brokers.options.prefix}{brokers.options.application}"

        async def look() -> int:
            if kind == "group coordinator restarts":
                return await brokers.coordinator(GROUP, f"{prefix}.{service}")
            if kind == "coordinator killed":
                return await brokers.coordinator(TRANSACTION, f"{prefix}-{service}-{partition}")
            await brokers.refresh()
            return brokers.leader((f"{service}.changelog", partition))

        try:
            return await brokers.persist(look, 30)
        finally:
            await brokers.close()
