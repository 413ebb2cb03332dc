"""This toolkit, Kafka Streams and Faust, the same orders on the same broker: prints tables, writes build/bench-kafka.json.

`python -m bench.kafka_bench [--only NAME]... [--rounds N] [--orders N] [--seconds N]`; names are the
systems and measurements below. Everything is measured in turns, each system in processes of its own that have run
some thousand orders before, as has the broker; medians of the rounds are told. What is measured alone is joined to
what the file has, and so is the rest when something could not be measured. All of it takes about a quarter of an hour.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.kafka_scale import growth, wide, workers
from bench.kafka_session import Stalled, running
from bench.kafka_systems import Faust, Streams, System, Toolkit
from eventlib.devtools.kafka import Cluster, ClusterConfig, running_cluster
from eventlib.runtime.runtime import collect_garbage_seldom

REPORT = Path(__file__).resolve().parents[1] / "build" / "bench-kafka.json"
RATE = 100
_FAUST_HAS = 10
"""Faust has so many times fewer orders in its backlog: it goes on at the same rate, for minutes."""

_BROKER = ClusterConfig(java_options=("-Xmx1g", "-XX:+UseSerialGC"))
_SERVICES = ("order", "stock", "payment", "dispatch")

ALONE = ("workers-2", "workers-4", "growth", "wide")
"""This toolkit only: several processes with all services in each, more and more log, 64 partitions a service."""

Found = dict[str, dict[str, list[float]]]


def tuned(commit_ms: int) -> Streams:
    """Return Kafka Streams for short waits: it commits often, and neither lingers nor sleeps longer than that."""
    return Streams(f"commit.interval.ms={commit_ms}", "producer.linger.ms=0", f"poll.ms={commit_ms}")


SYSTEMS: Mapping[str, System] = {
    "eventlib": Toolkit([]),
    "eventlib-4": Toolkit(*(["--service", name] for name in _SERVICES)),
    "streams": Streams(),
    "streams-10ms": tuned(10),
    "streams-3ms": tuned(3),
    "faust": Faust(),
}
TITLES = {
    "eventlib": "this toolkit, one process",
    "eventlib-4": "this toolkit, one process per service",
    "streams": "Kafka Streams exactly_once_v2, defaults",
    "streams-10ms": "the same, commit 10 ms, linger 0",
    "streams-3ms": "the same, commit 3 ms, linger 0",
    "faust": "Faust, at least once, one process per service",
}


async def compare(broker: Cluster, name: str, turn: int, asked: argparse.Namespace) -> dict[str, float]:
    """Measure one system: from a backlog, and at a steady rate."""
    orders = asked.orders // _FAUST_HAS if name == "faust" else asked.orders
    async with running(SYSTEMS[name], broker, f"{name}.{turn}.") as session:
        await session.warm_up(max(orders // 4, 500))
        found = await session.backlog(orders)
        found |= await session.steadily(RATE, asked.seconds)
        return found | {"memory_mb": session.memory_mb()}


async def alone(broker: Cluster, name: str, asked: argparse.Namespace) -> dict[str, float]:
    """Measure this toolkit in one more way."""
    if name == "growth":
        return await growth(broker, asked.largest_mb)
    if name == "wide":
        return await wide(broker, asked.orders // 40)
    return await workers(broker, int(name.rpartition("-")[2]), asked.orders // 2)


async def warm_up(broker: Cluster, asked: argparse.Namespace) -> None:
    """Let the broker run a while: it is a JVM, and whoever is measured first would pay for its compiling."""
    less = argparse.Namespace(orders=asked.orders // 4, seconds=asked.seconds // 2)
    for name in ("eventlib", "streams-10ms"):
        await compare(broker, name, -1, less)
    say("the broker is warm")


async def measure(asked: argparse.Namespace) -> Found:
    """Measure what is asked for, in turns, on one broker."""
    found: Found = defaultdict(lambda: defaultdict(list))
    with running_cluster(_BROKER) as broker:
        if len(asked.only) > 1:
            await warm_up(broker, asked)
        for turn in range(asked.rounds):
            for name in [each for each in asked.only if each in SYSTEMS or turn == 0]:
                began = time.monotonic()
                measuring = compare(broker, name, turn, asked) if name in SYSTEMS else alone(broker, name, asked)
                try:
                    figures = await measuring
                except Stalled as error:
                    say(f"{name} could not be measured: {error}")
                    continue
                for figure, value in figures.items():
                    found[name][figure].append(value)
                say(f"{name}, round {turn + 1} of {asked.rounds}: {time.monotonic() - began:.0f} s")
    return found


def say(sentence: str) -> None:
    """Tell how far it is."""
    print(sentence, file=sys.stderr, flush=True)


def medians(found: Found) -> dict[str, dict[str, float]]:
    """Return the medians of the rounds."""
    return {
        name: {figure: round(statistics.median(values), 3) for figure, values in figures.items()}
        for name, figures in found.items()
    }


def targets(systems: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return how this toolkit, in one process, stands to its peers, as far as they were measured in the same run."""
    ours, faust, plain = (systems.get(name) for name in ("eventlib", "faust", "streams"))
    fast = [systems[name] for name in systems if name.startswith("streams-")]
    found = dict[str, float]()
    if ours and faust:
        found["sagas_per_s_times_faust"] = ours["sagas_per_s"] / faust["sagas_per_s"]
        found["sagas_per_cpu_s_times_faust"] = ours["sagas_per_cpu_s"] / faust["sagas_per_cpu_s"]
    if ours and plain:
        found["sagas_per_cpu_s_times_streams"] = ours["sagas_per_cpu_s"] / plain["sagas_per_cpu_s"]
        found["p99_times_streams"] = ours["p99_ms"] / plain["p99_ms"]
    if ours and fast:
        found["p99_times_streams_tuned"] = ours["p99_ms"] / min(each["p99_ms"] for each in fast)
    return {name: round(value, 3) for name, value in found.items()}


def tell(systems: Mapping[str, Mapping[str, float]], reached: Mapping[str, float]) -> None:
    """Print the figures."""
    console = Console(width=110)
    table = Table(title=f"Python {platform.python_version()}, {os.cpu_count()} cores, medians", title_justify="left")
    columns = {
        "sagas/s": "sagas_per_s",
        "CPU s/1,000": "cpu_s_per_1000",
        "broker's": "broker_cpu_s_per_1000",
        "p50 ms": "p50_ms",
        "p99 ms": "p99_ms",
        "MB": "memory_mb",
    }
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right")
    for name, figures in systems.items():
        cells = (f"{figures[each]:,.2f}" if "cpu" in each else f"{figures[each]:,.0f}" for each in columns.values())
        table.add_row(TITLES[name], *cells)
    if systems:
        console.print(table)
    for name, value in reached.items():
        console.print(f"{name} {value:g}")


def tell_alone(found: Mapping[str, Mapping[str, float]]) -> None:
    """Print what was measured of this toolkit only."""
    console = Console(width=110)
    for name, figures in found.items():
        console.print(f"{name}: " + ", ".join(f"{figure} {value:g}" for figure, value in figures.items()))


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*SYSTEMS, *ALONE], help="measure this, may be repeated")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--orders", type=int, default=20_000, help="in the backlog")
    parser.add_argument("--seconds", type=int, default=20, help=f"for how long {RATE} orders a second are placed")
    parser.add_argument("--largest-mb", type=int, default=1_000, help="how far the log grows")
    asked = parser.parse_args(given)
    asked.only = asked.only or [*SYSTEMS, *ALONE]
    return asked


def main(given: Sequence[str]) -> None:
    """Measure, tell, and write it down; the exit code is 1 when something that was asked for is missing."""
    collect_garbage_seldom()
    asked = arguments(given)
    before = os.getloadavg()[0]
    found = medians(asyncio.run(measure(asked)))
    systems = {name: each for name, each in found.items() if name in SYSTEMS}
    reached = targets(systems)
    tell(systems, reached)
    tell_alone({name: each for name, each in found.items() if name in ALONE})
    old = json.loads(REPORT.read_text(encoding="utf-8")) if REPORT.exists() else {}
    report = {
        "measured": old.get("measured", {}) | {name: {**each, "load_before": before} for name, each in found.items()},
        "targets": old.get("targets", {}) | reached,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    sys.exit(1 if {*asked.only} - found.keys() else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
