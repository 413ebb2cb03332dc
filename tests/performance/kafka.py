"""One-line orders through the whole saga on Kafka: from a backlog, and one after the other; prints one JSON object.

`python -m tests.performance.kafka [ORDERS [RATE SECONDS]]` starts a broker of its own, warms it up, and measures.
CPU seconds are told apart, since a loaded machine changes how long things take, and not what they cost.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

from eventlib import EventLog, Runtime, open_log
from eventlib.broker import Cluster, ClusterConfig, running_cluster
from eventlib.runtime import collect_garbage_seldom
from eventlib.store.memory import MemoryStores
from services import shop
from tests.performance.sagas import InstantCarrier, InstantGateway, cpu_s, order, stock_up

_PORTS = {"gateway": InstantGateway(), "carrier": InstantCarrier()}
_PLACED_AT_ONCE = 2_000
_WARM_UP = 3_000
_FAST = ("-Xmx1g", "-XX:+UseSerialGC")
_TICKS = os.sysconf("SC_CLK_TCK")


def broker_cpu_s(broker: Cluster) -> float:
    """Return the CPU seconds of the broker so far."""
    fields = Path(f"/proc/{broker.nodes[0].pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def backlog(url: str, broker: Cluster, orders: int) -> dict[str, float]:
    """Place orders while nothing runs, then run the services until every order has ended."""
    async with open_log(url, shop) as log:
        async with Runtime(log, ports=_PORTS, stores=MemoryStores()) as runtime:
            await stock_up(log)
            await runtime.idle()
        for start in range(0, orders, _PLACED_AT_ONCE):
            await log.publish_many([order(n) for n in range(start, min(start + _PLACED_AT_ONCE, orders))])
        began, cpu, broker_cpu = time.perf_counter(), cpu_s(), broker_cpu_s(broker)
        async with Runtime(log, ports=_PORTS, stores=MemoryStores()):
            await _ended(log, orders)
            seconds = time.perf_counter() - began
    thousands = orders / 1_000
    return {
        "sagas_per_s": round(orders / seconds),
        "cpu_s_per_1000": round((cpu_s() - cpu) / thousands, 3),
        "broker_cpu_s_per_1000": round((broker_cpu_s(broker) - broker_cpu) / thousands, 3),
    }


async def _ended(log: EventLog, orders: int) -> None:
    """Wait until so many orders have ended."""
    topic = next(topic for topic in shop.topics if topic.name == "orders")
    reader = log.port.reader({(topic.name, partition): 0 for partition in range(topic.partitions)})
    left = orders
    while left:
        left -= sum(record.type in {"OrderCompleted", "OrderCancelled"} for record in await reader.poll(1_000))
    await reader.close()


async def steadily(url: str, broker: Cluster, rate: int, seconds: int) -> dict[str, float]:
    """Place `rate` orders a second, each for itself, and see from another connection how long each takes."""
    async with (
        open_log(url, shop) as log,
        open_log(url, shop) as outside,
        Runtime(log, ports=_PORTS, stores=MemoryStores()) as runtime,
    ):
        await stock_up(log)
        await runtime.idle()
        seen = asyncio.create_task(_latencies(outside, rate * seconds))
        await asyncio.sleep(0)
        began, cpu, broker_cpu = time.perf_counter(), cpu_s(), broker_cpu_s(broker)
        publishing = set[asyncio.Task[Any]]()
        for n in range(rate * seconds):
            await asyncio.sleep(max(0.0, began + n / rate - time.perf_counter()))
            publishing.add(asyncio.create_task(outside.publish_many([order(n)])))
        latencies = await seen
        took = time.perf_counter() - began
        await asyncio.gather(*publishing)
        found = quantiles(latencies[len(latencies) // 3 :], n=100)  # the first third warms up
        return {
            "rate": rate,
            "p50_ms": round(found[49]),
            "p99_ms": round(found[98]),
            "cores": round((cpu_s() - cpu) / took, 2),
            "broker_cores": round((broker_cpu_s(broker) - broker_cpu) / took, 2),
        }


async def _latencies(log: EventLog, orders: int) -> list[float]:
    """Return, in ms and in the order of their ends, how long orders took from OrderPlaced to their last event."""
    places = [("orders", p) for p in range(next(t.partitions for t in shop.topics if t.name == "orders"))]
    reader = log.port.reader({place: await log.port.end(*place) for place in places})
    placed, found = dict[bytes | None, float](), list[float]()
    while len(found) < orders:
        records = await reader.poll(500)
        now = time.perf_counter()
        for record in records:
            if record.type == "OrderPlaced":
                placed[record.key] = now
            elif record.type in {"OrderCompleted", "OrderCancelled"}:
                found.append((now - placed[record.key]) * 1_000)
    await reader.close()
    return found


async def measure(orders: int, rate: int, seconds: int) -> dict[str, Any]:
    """Measure on a broker of its own, once it is warm."""
    with running_cluster(ClusterConfig(java_options=_FAST)) as broker:
        await backlog(f"{broker.url}/?prefix=warm-up.", broker, _WARM_UP)
        return {
            "backlog": await backlog(f"{broker.url}/?prefix=backlog.", broker, orders),
            "steadily": await steadily(f"{broker.url}/?prefix=steadily.", broker, rate, seconds),
            "load_average": os.getloadavg()[0],
        }


if __name__ == "__main__":
    collect_garbage_seldom()
    asked = [int(each) for each in sys.argv[1:]]
    print(json.dumps(asyncio.run(measure(*(asked + [10_000, 100, 30][len(asked) :])))))
