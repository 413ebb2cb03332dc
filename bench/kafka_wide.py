"""What 64 partitions for each service cost in one process: `python -m bench.kafka_wide DIRECTORY ORDERS`.

The directory is that of a running broker. Prints a JSON object: cores while idle, and orders from a backlog.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from eventlib.devtools.kafka import Cluster

_APP = "bench.wide_shop"
_SETTLES_S = 8
_IDLE_S = 15


async def measure(broker: Cluster, orders: int) -> dict[str, float]:
    """Run orders, then let all of it rest, then run a backlog."""
    # So many topics are more than a minute's work for a busy broker, and until then nobody leads their partitions.
    os.environ |= {"EVENTLIB_KAFKA_APPEND_TIMEOUT_S": "300", "EVENTLIB_KAFKA_TRANSACTION_TIMEOUT_S": "120"}
    __import__(_APP)  # before anything that knows the shop
    from bench.kafka_session import broker_cpu_s, running
    from bench.kafka_systems import Toolkit

    async with running(Toolkit([], app=f"{_APP}:shop"), broker, "wide.") as session:
        began = time.perf_counter()
        await session.warm_up(max(orders // 4, 500))
        warm = time.perf_counter() - began
        await asyncio.sleep(_SETTLES_S)
        since, cpu, broker_cpu = time.perf_counter(), session.cpu_s(), broker_cpu_s(broker)
        await asyncio.sleep(_IDLE_S)
        took = time.perf_counter() - since
        rest = {
            "idle_cores": (session.cpu_s() - cpu) / took,
            "broker_idle_cores": (broker_cpu_s(broker) - broker_cpu) / took,
        }
        return rest | {"warm_after_s": warm} | await session.backlog(orders) | {"memory_mb": session.memory_mb()}


def main(directory: Path, orders: int) -> None:
    """Measure, and tell."""
    broker = Cluster.open(directory)
    if broker is None:
        raise SystemExit(f"{directory} has no broker")
    print(json.dumps(asyncio.run(measure(broker, orders))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
