"""What telemetry costs: one-line orders without it, with metrics, and traced at two shares, in turns.

`python -m tests.performance.telemetry [ORDERS] [ROUNDS]` prints CPU seconds for 1,000 orders as one JSON object. Spans go
to a receiver in this process, whose time is not counted.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.integration.otlp import receiving

ORDERS, ROUNDS = 3_000, 5
METRICS = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
TRACES = {"OTEL_TRACES_EXPORTER": "otlp"}
MODES: dict[str, dict[str, str]] = {
    "off": {},
    "metrics": METRICS,
    "traces_at_default": TRACES,
    "metrics_and_traces_at_default": METRICS | TRACES,
    "traces_at_1": TRACES | {"OTEL_TRACES_SAMPLER_ARG": "1"},
}


def measured(orders: int, variables: dict[str, str]) -> float:
    """Return the CPU seconds of 1,000 orders, in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.performance.sagas", str(Path(directory) / "shop.db"), str(orders)]
        environment = os.environ | variables
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(json.loads(done.stdout)["cpu_s_per_1000"][0])


def main(orders: int, rounds: int) -> None:
    """Measure, each round in another order, and tell."""
    found: dict[str, list[float]] = defaultdict(list)
    modes = [*MODES.items()]
    with receiving(keeps=False) as receiver:
        for turn in range(rounds):
            first = turn % len(modes)
            for mode, variables in modes[first:] + modes[:first]:
                to = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url} if variables else {}
                found[mode].append(measured(orders, variables | to))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*(map(int, sys.argv[1:]) if len(sys.argv) > 2 else (ORDERS, ROUNDS)))
