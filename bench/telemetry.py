"""What telemetry costs: the same orders without it, with metrics, and traced at two shares, in turns in one process.

`python -m bench.telemetry [ORDERS] [ROUNDS]` prints CPU seconds for 1,000 orders as one JSON object. Each mode
has a log, a runtime and a telemetry of its own, and gets ORDERS orders in each round: what a machine does to one of
them within a second it does to its neighbours. `off again` is what the others are compared with once more: how far
it is from `off` is how far any of them may be by chance. Spans go to a receiver in another process, which is not counted.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from bench.sagas import cpu_s, opened, run_orders
from eventlib import EventLog, Runtime
from eventlib.runtime.runtime import collect_garbage_seldom
from tests.integration.otlp import receiving

if TYPE_CHECKING:
    from eventlib.telemetry.process import Telemetry

ORDERS, ROUNDS = 250, 40
_WARM_ROUNDS = 4
METRICS = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
TRACES = {"OTEL_TRACES_EXPORTER": "otlp"}
MODES: dict[str, dict[str, str]] = {
    "off": {},
    "off_again": {},
    "metrics": METRICS,
    "traces_at_default": TRACES,
    "metrics_and_traces_at_default": METRICS | TRACES,
    "traces_at_1": TRACES | {"OTEL_TRACES_SAMPLER_ARG": "1"},
}


@dataclass(frozen=True)
class Shop:
    """A shop with a log of its own, and what tells of it, if anything does."""

    log: EventLog
    runtime: Runtime
    telemetry: "Telemetry | None"

    async def run(self, first: int, end: int) -> float:
        """Run orders; return the CPU seconds of 1,000, with those of sending what is to be told."""
        before = cpu_s()
        await run_orders(self.log, self.runtime, first, end)
        if self.telemetry is not None:
            self.telemetry.flush()
        return (cpu_s() - before) / (end - first) * 1_000


async def measured(directory: Path, orders: int, rounds: int) -> Mapping[str, list[float]]:
    """Measure, each round in another order."""
    found: dict[str, list[float]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        shops = dict[str, Shop]()
        for mode, variables in MODES.items():
            with patch.dict(os.environ, variables):
                shops[mode] = Shop(*await opened(stack, directory / f"{mode}.db"))
        modes = [*shops.items()]
        for turn in range(-_WARM_ROUNDS, rounds):
            begin, first = (turn + _WARM_ROUNDS) * orders, turn % len(modes)
            for mode, each in modes[first:] + modes[:first]:
                cost = await each.run(begin, begin + orders)
                if turn >= 0:
                    found[mode].append(cost)
    return found


def main(orders: int, rounds: int) -> None:
    """Measure in a process of its own, whose spans this one receives, and tell."""
    with receiving(keeps=False) as receiver:
        command = [sys.executable, "-m", "bench.telemetry", "measure", str(orders), str(rounds)]
        environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    print(done.stdout, end="")


if __name__ == "__main__":
    collect_garbage_seldom()
    match sys.argv[1:]:
        case ["measure", orders, rounds]:
            with tempfile.TemporaryDirectory() as place:
                print(json.dumps(asyncio.run(measured(Path(place), int(orders), int(rounds)))))
        case [orders, rounds]:
            main(int(orders), int(rounds))
        case _:
            main(ORDERS, ROUNDS)
