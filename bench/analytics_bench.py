"""How fast the analytics are, from every source, as the log grows: prints tables and writes a report.

`python -m bench.analytics_bench [--events N,N…] [--sources NAME,NAME…] [--cores N,N…] [--rounds N]
[--minutes N] [--logs DIR] [--report FILE]`.
The logs are the shop's own: its services run the demo's orders until they have said so many events, so ids, causes,
journals and changelogs are what they are anywhere. `--logs` keeps them for the next run. The archive is made of that
log, and so is the copy on a broker of its own. Each source is measured on all cores in a process of its own, in which the
jobs take turns, and the archive on one core too (`--cores` says on which): each in so many rounds as there is time for, in
one at least. Figures are medians, and the tables say of how many. The logs are right: an audit that has findings is wrong.
The file is written after each part; what fails is in it, and ends the command with 1 when all else has been measured.
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
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from bench.analytics_tables import Measured, growth_of, table_of
from eventlib.devtools.kafka import ClusterConfig, running_cluster

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "build" / "bench-analytics.json"
SOURCES = ("sqlite", "archive", "kafka")
CORES = os.cpu_count() or 1
_EVENTS_OF_AN_ORDER = 34  # fewer than the demo's orders have, so that a log may be a little larger than asked for
_BROKER = ClusterConfig(java_options=("-Xmx1g", "-XX:+UseSerialGC"))

_WIDTH = 120  # of the tables in a file


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
        with tempfile.TemporaryDirectory(dir=place) as making:
            unfinished = Path(making) / "shop.db"
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
                run("eventlib", "copy", "--from", url, "--to", broker.url, "--source-stays")
                yield broker.url
        case _:
            yield url


@dataclass
class Report:
    """What was measured so far, and what has failed; its file has it after every part, however the rest goes."""

    file: Path
    logs: dict[int, Measured] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Do one part of the whole; whatever it fails with is told, and the other parts go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  an hour's figures are not lost to the last part
            self.fail(f"{what}: {error}")
        finally:
            self.write()

    def fail(self, why: str) -> None:
        """Note a failure."""
        say(f"failed: {why}")
        self.failures.append(why)

    def write(self) -> None:
        """Write the file."""
        machine = {"python": platform.python_version(), "cores": CORES}
        self.file.parent.mkdir(exist_ok=True)
        unfinished = self.file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({**machine, "logs": self.logs, "failures": self.failures}, indent=2) + "\n")
        unfinished.replace(self.file)


def measured(name: str, url: str, cores: int, rounds: int, seconds: float) -> tuple[Measured, int]:
    """Measure all jobs on a log, in no further round when there is no time; returns how that ended, too."""
    say(f"measuring: {name}, local[{cores}]")
    told = [url, f"local[{cores}]", str(rounds), str(round(seconds))]
    command = [sys.executable, "-m", "bench.analytics_measuring", *told]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    runs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = Measured()
    for job in dict.fromkeys(each["job"] for each in runs):
        of_job = [each for each in runs if each["job"] == job]
        medians = {key: statistics.median(each[key] for each in of_job) for key in of_job[0] if key != "job"}
        rates = {
            "events_per_s": medians["events"] / medians["seconds"],
            "cpu_us_per_event": medians["cpu_s"] / medians["events"] * 1e6,
        }
        found.append({"source": name, "cores": cores, "job": job, "times": len(of_job), **medians, **rates})
    return found, done.returncode


def of_size(report: Report, size: int, chosen: argparse.Namespace, logs: Path) -> None:
    """Measure all jobs from every source, in about so many minutes."""
    found, until = report.logs.setdefault(size, []), time.monotonic() + 60 * chosen.minutes
    url = shop_log(logs, size)
    kinds = {name: chosen.cores if name == "archive" else chosen.cores[:1] for name in chosen.sources}
    left = sum(map(len, kinds.values()))
    for name in chosen.sources:
        with report.part(f"{size:,} events, {name}"), source(name, url, logs) as there:
            for cores in kinds[name]:
                # One share more than there are measurements: for the copies that are still to be made.
                seconds = max(0.0, until - time.monotonic()) / (left + 1)
                of_part, code = measured(name, there, cores, chosen.rounds, seconds)
                found += of_part
                left -= 1
                where = f"{size:,} events, {name}, local[{cores}]"
                if code:
                    report.fail(f"{where}: ended with {code}")
                for each in of_part:
                    if each["findings"]:
                        report.fail(
                            f"{where}: {each['job']} has {each['findings']:,.0f} findings in a log that is right"
                        )
                report.write()


def main(chosen: argparse.Namespace, logs: Path) -> int:
    """Measure, tell, and return how many parts have failed."""
    report, console = Report(chosen.report), Console(width=None if sys.stdout.isatty() else _WIDTH)
    for size in sorted(chosen.events):
        with report.part(f"{size:,} events"):
            of_size(report, size, chosen, logs)
        console.print(table_of(report.logs[size], size))
    console.print(growth_of(report.logs))
    for each in report.failures:
        console.print(f"failed: {each}", markup=False)
    print(f"written: {report.file}")
    return len(report.failures)


def numbers(text: str) -> list[int]:
    """Read numbers, each given once."""
    return [*dict.fromkeys(map(int, text.split(",")))]


def names(text: str) -> list[str]:
    """Read names of sources."""
    found = text.split(",")
    if unknown := set(found) - set(SOURCES):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(SOURCES)}")
    return found


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--events", type=numbers, default="1000000", help="sizes of logs; 1000000,3000000,10000000 take hours"
    )
    parser.add_argument("--sources", type=names, default=",".join(SOURCES), help="of sqlite, archive, kafka")
    parser.add_argument(
        "--cores",
        type=numbers,
        default=[*dict.fromkeys((CORES, 1))],
        help="how many cores the archive is measured on, each in its turn; the other sources on the first of these",
    )
    parser.add_argument("--rounds", type=int, default=3, help="at most")
    parser.add_argument(
        "--minutes", type=float, default=14, help="about so long for each size; one round there is always"
    )
    parser.add_argument("--logs", type=Path, help="where logs are kept for the next run; else they are removed")
    parser.add_argument("--report", type=Path, default=REPORT, help="the file to write")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = parsed()
    with tempfile.TemporaryDirectory() as made_here:
        kept = chosen.logs or Path(made_here)
        kept.mkdir(parents=True, exist_ok=True)
        failed = main(chosen, kept)
    sys.exit(1 if failed else 0)
