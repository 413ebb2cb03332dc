"""How fast the analytics are, from every source, as the log grows: prints tables and writes build/bench-analytics.json.

`python -m tests.performance.analytics_bench [--events N,N…] [--sources NAME,NAME…] [--rounds N] [--minutes N] [--logs DIR]`.
The logs are the shop's own: its services run the demo's orders until they have said so many events, so ids, causes,
journals and changelogs are what they are anywhere. `--logs` keeps them for the next run. The archive is made of that
log, and so is the copy on a broker of its own. Each source is measured on all cores in a process of its own, in which the
jobs take turns, and the archive on one core too: each in so many rounds as there is time for, in one at least. Figures
are medians, and the tables say of how many. The logs are right: an audit that has findings is wrong.
"""

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eventlib.broker import ClusterConfig, running_cluster

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "build" / "bench-analytics.json"
SOURCES = ("sqlite", "archive", "kafka")
CORES = os.cpu_count() or 1
_EVENTS_OF_AN_ORDER = 34  # fewer than the demo's orders have, so that a log may be a little larger than asked for
_BROKER = ClusterConfig(java_options=("-Xmx1g", "-XX:+UseSerialGC"))

_WIDTH = 120  # of the tables in a file

Measured = list[dict[str, Any]]


def run(*command: object) -> str:
    """Run a command of the project's in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def say(text: str) -> None:
    """Tell what is done now."""
    print(text, file=sys.stderr, flush=True)


def shop_log(place: Path, events: int) -> str:
    """Return the URL of a log of the shop with about so many events, made now unless it is there."""
    file = place / f"shop-{events}.db"
    if not file.exists():
        say(f"making a log of about {events:,} events")
        orders = max(1, events // _EVENTS_OF_AN_ORDER)
        unfinished = file.with_suffix(".unfinished")
        run("services", "demo", "--orders", orders, "--seed", 7, "--log", f"sqlite:///{unfinished}", "--json")
        with closing(sqlite3.connect(unfinished)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        unfinished.rename(file)
    return f"sqlite:///{file}"


def archive_of(url: str, place: Path) -> str:
    """Return the URL of a log's archive, brought up to date."""
    archive = place / Path(url).with_suffix(".archive").name
    say("archiving it")
    run("analytics", "archive", "--log", url, "--to", archive, "--json")
    return f"archive:{archive}"


@contextmanager
def source(name: str, url: str, place: Path) -> Iterator[str]:
    """The same log where a source has it."""
    match name:
        case "archive":
            yield archive_of(url, place)
        case "kafka":
            with running_cluster(_BROKER) as broker:
                say("copying it to a broker")
                run("eventlib.cli", "copy", "--from", url, "--to", broker.url, "--source-stays")
                yield broker.url
        case _:
            yield url


def measured(name: str, url: str, cores: int, rounds: int, seconds: float) -> Measured:
    """Measure all jobs on a log, in no further round when there is no time."""
    say(f"measuring: {name}, local[{cores}]")
    lines = run("tests.performance.analytics_measuring", url, f"local[{cores}]", rounds, round(seconds)).splitlines()
    runs = [json.loads(line) for line in lines if line.startswith("{")]
    found = list[dict[str, Any]]()
    for job in dict.fromkeys(each["job"] for each in runs):
        of_job = [each for each in runs if each["job"] == job]
        medians = {key: statistics.median(each[key] for each in of_job) for key in of_job[0] if key != "job"}
        rates = {
            "events_per_s": medians["events"] / medians["seconds"],
            "cpu_us_per_event": medians["cpu_s"] / medians["events"] * 1e6,
        }
        found.append({"source": name, "cores": cores, "job": job, "times": len(of_job), **medians, **rates})
    return found


def table_of(found: Measured, size: int) -> Table:
    """Return what was measured on a log of some size as a table."""
    table = Table(title=f"about {size:,} events", title_justify="left")
    for heading in (
        "source",
        "cores",
        "job",
        "times",
        "events/s",
        "of the scan",
        "CPU µs an event",
        "JVM MB",
        "workers MB",
    ):
        table.add_column(heading, justify="left" if heading in {"source", "job"} else "right")
    for each in found:
        scan = next(it for it in found if (it["source"], it["cores"]) == (each["source"], each["cores"]))
        table.add_row(
            *(each["source"], str(each["cores"]), each["job"], str(each["times"]), f"{each['events_per_s']:,.0f}"),
            f"{each['events_per_s'] / scan['events_per_s']:.2f}",
            f"{each['cpu_us_per_event']:.1f}",
            *(f"{each[key]:,.0f}" for key in ("java_mb", "workers_mb", "findings")),
        )
    return table


def growth_of(report: Mapping[int, Measured]) -> Table:
    """Return each job's CPU for an event, side by side for the sizes of the log."""
    table = Table(title="CPU µs an event, and MB at most, as the log grows", title_justify="left")
    for heading in ("source", "cores", "job", *(f"{size:,}" for size in report)):
        table.add_column(heading)
    places = dict.fromkeys((each["source"], each["cores"], each["job"]) for found in report.values() for each in found)
    for place in places:
        cells = list[str]()
        for found in report.values():
            each = next((it for it in found if (it["source"], it["cores"], it["job"]) == place), None)
            cells.append("" if each is None else f"{each['cpu_us_per_event']:.1f}, {_mb(each):,.0f} MB")
        table.add_row(place[0], str(place[1]), place[2], *cells)
    return table


def _mb(each: Mapping[str, Any]) -> float:
    return float(each["java_mb"] + each["workers_mb"])


def of_size(size: int, sources: Sequence[str], rounds: int, minutes: float, logs: Path) -> Measured:
    """Measure all jobs from every source, in about so many minutes."""
    found, until = Measured(), time.monotonic() + 60 * minutes
    url = shop_log(logs, size)
    kinds = {name: [CORES, 1] if name == "archive" and CORES > 1 else [CORES] for name in sources}
    left = sum(map(len, kinds.values()))
    for name in sources:
        with source(name, url, logs) as there:
            for cores in kinds[name]:
                # One share more than there are measurements: for the copies that are still to be made.
                found += measured(name, there, cores, rounds, max(0.0, until - time.monotonic()) / (left + 1))
                left -= 1
    return found


def main(chosen: argparse.Namespace, logs: Path) -> None:
    """Measure, and tell."""
    report, console = dict[int, Measured](), Console(width=None if sys.stdout.isatty() else _WIDTH)
    for size in map(int, chosen.events.split(",")):
        report[size] = of_size(size, chosen.sources.split(","), chosen.rounds, chosen.minutes, logs)
        console.print(table_of(report[size], size))
    console.print(growth_of(report))
    REPORT.parent.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "cores": CORES}
    REPORT.write_text(json.dumps({**machine, "logs": report}, indent=2) + "\n")


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="1000000", help="sizes of logs; 1000000,3000000,10000000 take hours")
    parser.add_argument("--sources", default=",".join(SOURCES), help="of sqlite, archive, kafka")
    parser.add_argument("--rounds", type=int, default=3, help="at most")
    parser.add_argument(
        "--minutes", type=float, default=14, help="about so long for each size; one round there is always"
    )
    parser.add_argument("--logs", type=Path, help="where logs are kept for the next run; else they are removed")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parsed()
    with tempfile.TemporaryDirectory() as made_here:
        kept = chosen.logs or Path(made_here)
        kept.mkdir(parents=True, exist_ok=True)
        main(chosen, kept)
