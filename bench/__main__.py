"""Everything in one run: `python -m bench [ROUNDS]`; writes build/bench.json and prints a table.

What is compared is measured in turns, each time in a process of its own, and the medians are told. The real file is
taken from `../shared/data` where it is, else the demo's orders stand in for it.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
REAL_FILE = ROOT.parent / "shared" / "data" / "orders-open.ndjson.gz"
ORDERS = 6_000
PEER_ORDERS = 300
SMALL_LOG, LARGE_LOG = 10_000, 200_000
MEASURED_AT = 4_000
HTTP_S = 10
REPLAYS = 3


def run(*command: object) -> str:
    """Run one measurement in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout


def sagas(directory: Path, found: dict[str, list[float]]) -> None:
    """Run one-line orders; append the same bytes again with bare sqlite3, and decide again with nothing around it."""
    log = directory / "shop.db"
    measured = json.loads(run("bench.sagas", log, ORDERS))
    (per_s,), (cpu,), (batch,) = (measured[name] for name in ("sagas_per_s", "cpu_s_per_1000", "records_per_commit"))
    ceiling = float(run("bench.ceiling", log, round(batch), directory))
    records = records_of(log)
    found["sagas_per_s"].append(per_s)
    found["cpu_s_per_1000_sagas"].append(cpu)
    found["records_per_commit"].append(batch)
    found["records_per_saga"].append(records / ORDERS)
    found["records_per_s"].append(per_s * records / ORDERS)
    found["ceiling_records_per_s"].append(ceiling)
    found["share_of_ceiling"].append(per_s * records / ORDERS / ceiling)
    for name, us in json.loads(run("bench.floors", log)).items():
        found[f"floor_{name}_us_per_saga"].append(us)


def records_of(log: Path) -> int:
    """Count the records that were written, also those that compaction has dropped since."""
    import sqlite3

    connection = sqlite3.connect(log)
    (count,) = connection.execute("SELECT sum(next_offset) FROM partitions").fetchone()
    connection.close()
    return int(count)


def peer(directory: Path, found: dict[str, list[float]]) -> None:
    """Run the same steps as durable workflows of DBOS."""
    measured = json.loads(run("bench.dbos_peer", directory, PEER_ORDERS).splitlines()[-1])
    found["dbos_sagas_per_s"].append(PEER_ORDERS / measured["seconds"])
    found["dbos_cpu_s_per_1000_sagas"].append(measured["cpu_s"] / PEER_ORDERS * 1_000)


def codecs(directory: Path, found: dict[str, list[float]]) -> None:
    """Encode and decode an order of three lines in each format, and with bare fastavro."""
    del directory  # nothing is written
    for name, value in json.loads(run("bench.codecs")).items():
        found[name].append(value)


def real_file(directory: Path, found: dict[str, list[float]]) -> None:
    """Import the real orders with some declined and some undeliverable, with the ledger on disk."""
    log = f"sqlite:///{directory}/real.db"
    flags = ["--decline", "0.05", "--undeliverable", "0.01", "--stock", "1000", "--log", log, "--json"]
    began = time.perf_counter()
    command = [sys.executable, "-m", "services", "import", str(REAL_FILE), *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as importing:
        assert importing.stdout is not None
        importing.stdout.read()
        _, status, usage = os.wait4(importing.pid, 0)
        importing.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    events = events_of(directory / "real.db")
    found["real_file_seconds"].append(seconds)
    found["real_file_events"].append(events)
    found["real_file_events_per_s"].append(events / seconds)
    found["real_file_peak_mb"].append(usage.ru_maxrss / 1024)
    for _ in range(REPLAYS):
        replayed(log, found)


def replayed(log: str, found: dict[str, list[float]]) -> None:
    """Replay a log with the code that has made it, which differs in nothing."""
    began, cpu = time.perf_counter(), children_cpu_s()
    command = [str(Path(sys.executable).with_name("eventlib")), "replay", "--json", "--log", log]
    report = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    seconds = time.perf_counter() - began
    found["replay_events_per_s"].append(report["events"] / seconds)
    found["replay_cpu_s_per_1000_events"].append((children_cpu_s() - cpu) / report["events"] * 1_000)


def children_cpu_s() -> float:
    """Return the CPU seconds of all processes that this one has started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def events_of(log: Path) -> int:
    """Count the events on a log: what is on its topics but changelogs, journals, copies and schemas."""
    import sqlite3

    connection = sqlite3.connect(log)
    (count,) = connection.execute(
        "SELECT sum(next_offset) FROM partitions WHERE topic NOT LIKE '%.changelog' AND topic NOT LIKE '%.journal' "
        "AND topic NOT LIKE '%.latest' AND topic <> '_schemas'"
    ).fetchone()
    connection.close()
    return int(count)


def growth(directory: Path, found: dict[str, list[float]]) -> None:
    """Measure the same orders on a log that has few already, and on one that has many."""
    measured = json.loads(run("bench.sagas", directory / "g.db", MEASURED_AT, SMALL_LOG, LARGE_LOG))
    for at, index in ((SMALL_LOG, 0), (LARGE_LOG, 1)):
        found[f"cpu_s_per_1000_sagas_at_{at}"].append(measured["cpu_s_per_1000"][index])
        found[f"sagas_per_s_at_{at}"].append(measured["sagas_per_s"][index])
        found[f"peak_mb_at_{at}"].append(measured["peak_mb"][index])


def http(directory: Path, found: dict[str, list[float]]) -> None:
    """Place orders over HTTP, and read them back at two sizes."""
    del directory  # it makes several of its own
    for name, value in json.loads(run("bench.http", HTTP_S, SMALL_LOG, LARGE_LOG)).items():
        found[name].append(value)


def telemetry(directory: Path, found: dict[str, list[float]]) -> None:
    """Run one-line orders without telemetry, with metrics, and traced at two shares."""
    del directory  # it makes several of its own
    measured: dict[str, list[float]] = json.loads(run("bench.telemetry"))
    for mode, cpu_s in measured.items():
        found[f"telemetry_{mode}_cpu_s_per_1000_sagas"] += cpu_s
        if mode != "off":  # of the same round, since a machine has good and bad minutes
            found[f"telemetry_{mode}_times_off"] += [on / off for on, off in zip(cpu_s, measured["off"], strict=True)]


def main(rounds: int) -> None:
    """Measure, and tell."""
    found: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
        for measure in (sagas, peer, codecs):
            with tempfile.TemporaryDirectory() as directory:
                measure(Path(directory), found)
    for measure in (real_file, growth, http, telemetry) if REAL_FILE.exists() else (growth, http, telemetry):
        print(measure.__doc__, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as directory:
            measure(Path(directory), found)
    medians = {name: statistics.median(values) for name, values in found.items()}
    medians["times_dbos"] = medians["sagas_per_s"] / medians["dbos_sagas_per_s"]
    tell(medians, found)
    report = ROOT / "build" / "bench.json"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps(medians, indent=2, sort_keys=True) + "\n")


def tell(medians: dict[str, float], found: dict[str, list[Any]]) -> None:
    """Print the figures as a table."""
    table = Table(title=f"Python {platform.python_version()}, {os.cpu_count()} cores, medians", title_justify="left")
    for heading in ("figure", "median", "from", "to"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for name, value in medians.items():
        values = found.get(name, [value])
        table.add_row(
            name, *(f"{each:,.2f}" if each < 100 else f"{each:,.0f}" for each in (value, min(values), max(values)))
        )
    Console().print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
