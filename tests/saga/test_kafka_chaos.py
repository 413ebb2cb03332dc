"""Chaos on three nodes of Kafka: workers, nodes and the network fail during an import; then the invariants hold.

Each invariant is computed from the order file, what a read_committed read of the log shows, and the gateway's own ledger;
what Kafka's plain consumer reads is the same, and a replay of the journals says all of it again.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from secrets import token_hex

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from tests.ports import free_port
from tests.saga.fleet import Fleet, outside_at
from tests.saga.following import Endings
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.kafka_chaos import FAR, NEAR, Attack, Chaos
from tests.saga.network import Network
from tests.saga.paced import PacedImport
from tests.saga.pasts import check_pasts
from tests.saga.shop_runs import REAL_ORDERS, ShopLog, order_file

pytestmark = pytest.mark.heavy

FAULTS = {
    "gateway": {"decline": 0.05, "timeout": 0.03, "lost": 0.03, "duplicate": 0.05},
    "carrier": {"undeliverable": 0.05, "timeout": 0.03, "lost": 0.03, "duplicate": 0.05},
}
STOCK_UNITS = 1_000
SHORT = Chaos(20_261_121, orders=320, orders_per_s=10.0, on_workers=6, on_nodes=4)
FULL = Chaos(1, orders=5_000, orders_per_s=15.0, on_workers=75, on_nodes=35)


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture(scope="module")
def cluster(network: Network) -> Iterator[Cluster]:
    with running_cluster(ClusterConfig(nodes=3), prepare=network.lay) as cluster:
        yield cluster


@pytest.mark.extended
@pytest.mark.parametrize("chaos", [SHORT], ids=lambda chaos: f"seed {chaos.seed}")
def test_workers_nodes_and_the_network_fail_and_the_laws_hold(
    tmp_path: Path, cluster: Cluster, network: Network, chaos: Chaos
) -> None:
    _run(tmp_path, cluster, network, chaos)


@pytest.mark.slow
@pytest.mark.skipif(not REAL_ORDERS.exists(), reason="the real orders are not shipped with the project")
@pytest.mark.parametrize("chaos", [FULL], ids=lambda chaos: f"seed {chaos.seed}")
def test_more_than_a_hundred_faults(tmp_path: Path, cluster: Cluster, network: Network, chaos: Chaos) -> None:
    _run(tmp_path, cluster, network, chaos)


def _run(directory: Path, cluster: Cluster, network: Network, chaos: Chaos) -> None:
    print(chaos)
    prefix = f"{token_hex(4)}."
    shop, file = ShopLog(directory, f"{cluster.url}/?prefix={prefix}"), order_file(directory, chaos.orders)
    ledger, wanted = directory / "simulators.db", read_file(file)
    outside = f"http://127.0.0.1:{free_port()}"
    environment = outside_at(outside) | {
        "SHOP_CONNECT_TIMEOUT_S": "0.5",
        "SHOP_READ_TIMEOUT_S": "0.5",
        "EVENTLIB_BREAKER_PAUSE_S": "0.2",
        "EVENTLIB_STATE_DIR": str(directory / "state"),
    }
    with Fleet(shop, environment) as fleet, Endings(shop.url) as endings:
        fleet.start_simulators(outside, ledger, FAULTS, chaos.seed)
        for name in NEAR:
            fleet.start_services(name)
        fleet.start_services(FAR, "--log", f"kafka://{network.bootstrap}/?prefix={prefix}")
        for name in (*NEAR, FAR):
            fleet.ready(name)
        with PacedImport(file, shop.url, STOCK_UNITS, chaos.orders_per_s) as placing:
            endings.wait(1, longest_s=120)
            attack = Attack(fleet, cluster, network, chaos.seed, lambda: placing.placed, lambda: endings.count)
            attack.run(chaos.on_workers, chaos.on_nodes)
            begun_late = len(wanted.orders) - placing.placed
        endings.wait(len(wanted.orders), len(wanted.skus), longest_s=600)
        fleet.stop(*NEAR, FAR, "simulators")
    assert attack.in_vain <= attack.hits.total() // 4, "too much was over before it could fail"
    seen = dict[tuple[str, int], tuple[int, int]]()
    history = History(_counted(shop.tail(), seen))
    print(f"{attack.hits.total()} faults: {dict(attack.hits)}, {attack.in_vain} in vain; {history.records} events")
    print(f"{len(wanted.orders)} orders, {begun_late} of them placed after the last fault, {placing.repeated} repeated")
    print(f"after a fault, an order ended within {attack.longest_s:.1f} s at most")
    check_laws(wanted, history, ledger, STOCK_UNITS)
    assert shop.parked() == []
    assert asyncio.run(_plainly_read(cluster, prefix, seen.keys())) == seen
    again = shop.replay(longest_s=900)
    assert again["decisions"] > 0
    assert (again["differences"], again["unknown"]) == (0, []), again["first"]
    some = Random(chaos.seed).sample(sorted(wanted.orders), 10)
    assert check_pasts(shop.url, some) > len(some)
    assert {"PaymentFailed", "DispatchFailed", "OrderCompleted"} <= {
        k for s in history.stories.values() for k in s.said
    }


def _counted(lines: Iterable[str], seen: dict[tuple[str, int], tuple[int, int]]) -> Iterator[str]:
    """Hand records on, and take note of how many there are in each partition, and of the sum of their offsets."""
    for line in lines:
        record = json.loads(line)
        place = record["topic"], record["partition"]
        count, total = seen.get(place, (0, 0))
        seen[place] = count + 1, total + record["offset"]
        yield line


async def _plainly_read(
    cluster: Cluster, prefix: str, places: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the same as Kafka's plain consumer reads it under read_committed."""
    partitions = {TopicPartition(prefix + topic, number): (topic, number) for topic, number in places}
    found = dict[tuple[str, int], tuple[int, int]]()
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        consumer.assign([*partitions])
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets([*partitions])
        while [p for p in partitions if await consumer.position(p) < ends[p]]:
            for partition, records in (await consumer.getmany(timeout_ms=1_000, max_records=10_000)).items():
                count, total = found.get(partitions[partition], (0, 0))
                found[partitions[partition]] = (count + len(records), total + sum(r.offset for r in records))
    return found
