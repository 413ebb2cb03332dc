"""How this toolkit goes with more processes, more log and more partitions on Kafka; measured by `kafka_bench`."""

import asyncio
import json
import sys

from bench.kafka_session import ROOT, Stalled, running
from bench.kafka_systems import Toolkit
from eventlib.devtools.kafka import Cluster

SIZES_MB = (10, 100, 1_000)
_FIRST, _MEASURED, _AT_ONCE = 500, 3_000, 10_000


async def workers(broker: Cluster, count: int, orders: int) -> dict[str, float]:
    """Run a backlog through so many processes with all services in each."""
    async with running(Toolkit(["--workers", str(count)]), broker, f"workers-{count}.") as session:
        await session.warm_up(max(orders // 4, 500))
        return await session.backlog(orders)


async def growth(broker: Cluster, largest_mb: int) -> dict[str, float]:
    """Let the log grow, and measure orders at its sizes (MB, as the broker has them on disk)."""
    found = dict[str, float]()
    prefix = "growth."
    async with running(Toolkit([]), broker, prefix) as session:
        await session.warm_up(_FIRST)
        orders = _FIRST
        for size in (size for size in SIZES_MB if size <= largest_mb):
            while (has := _size_mb(broker, prefix)) < size:
                more = min(int((size - has) * orders / has) + 1, _AT_ONCE)
                await session.backlog(more)
                orders += more
            orders += _MEASURED
            at = await session.backlog(_MEASURED)
            found[f"cpu_s_per_1000_at_{size}_mb"] = at["cpu_s_per_1000"]
            found[f"broker_cpu_s_per_1000_at_{size}_mb"] = at["broker_cpu_s_per_1000"]
            found[f"sagas_per_s_at_{size}_mb"] = at["sagas_per_s"]
            found[f"memory_mb_at_{size}_mb"] = session.memory_mb()
    return found


def _size_mb(broker: Cluster, prefix: str) -> float:
    logs = (broker.nodes[0].directory / "data").glob(f"{prefix}*/*.log")
    return sum(log.stat().st_size for log in logs) / 1e6


async def wide(broker: Cluster, orders: int) -> dict[str, float]:
    """Run the shop with 64 partitions a service in one process: idle, and from a backlog."""
    command = [sys.executable, "-m", "bench.kafka_wide", str(broker.directory), str(orders)]
    measuring = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    said, _ = await measuring.communicate()
    if measuring.returncode:
        raise Stalled("the shop with 64 partitions could not be measured")
    found: dict[str, float] = json.loads(said)
    return found
