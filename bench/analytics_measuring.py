"""Measures the jobs of the analytics on one log: `python -m bench.analytics_measuring URL MASTER ROUNDS SECONDS`.

A process of its own for each log and master, in which the jobs take turns; prints one JSON object a line for each. First
of all the log is scanned once, so that the scan is not measured while Java is still compiling it; of every other job the
first round is. The scans, which all else is compared with, are measured before each of the longer jobs. After the first,
no round begins that would end later than after so many seconds, if it took as long as the one before.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics import log, session
from analytics.asking import spans
from analytics.audit.application import Application
from analytics.audit.auditing import rule_findings
from analytics.audit.decisions import decision_findings
from analytics.rebuilding import How, rebuild
from analytics.rebuilding.catalogue import catalogue_of
from services.analytics import TABLES

_EVERY_S = 0.2
_TICK = os.sysconf("SC_CLK_TCK")
_BEGAN = 19  # of the fields of stat behind the name: a process's start, since numbers come again
_RESET_PEAK = "5"  # what proc(5) wants in clear_refs for that


def read_all(records: DataFrame) -> None:
    """Read every column of every record, and decode nothing."""
    records.agg(*(_size(records.schema[name].dataType, f.col(name)) for name in records.columns)).collect()


def _size(kind: t.DataType, column: Column) -> Column:
    match kind:
        case t.StringType() | t.BinaryType():
            return f.sum(f.octet_length(column))
        case t.ArrayType():
            return f.sum(f.size(column))
        case t.TimestampType():
            return f.max(column)
        case _:
            return f.sum(column)


def aggregate(records: DataFrame) -> None:
    """Count records by type, with the newest of each."""
    records.groupBy("topic", "type").agg(f.count("*"), f.max("recorded_at")).collect()


class Jobs:
    """The jobs on one log, by name, each returning how many events it was about; `findings` are the last audit's."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark = spark
        self._url = url
        self._application = Application()
        self._topics = catalogue_of(self._application, TABLES).topics
        self.findings = 0
        ends = {place: len(span) for place, span in spans(url).items()}
        self._audited = sum(n for (topic, _), n in ends.items() if topic in self._application.topics)
        self._rebuilt = sum(n for (topic, _), n in ends.items() if topic in self._topics)

    @property
    def round(self) -> Iterator[tuple[str, Callable[[], int]]]:
        """The jobs, one after the other."""
        longer = {
            "rebuild": self.rebuild,
            "rebuild of every table": self.rebuild_every,
            "audit by rules": self.rules,
            "differential audit": self.decisions,
        }
        for each in longer.items():
            yield "scan of all columns", self.scan
            yield "count by type", self.count
            yield each

    def scan(self) -> int:
        """Read what a rebuild reads."""
        read_all(log(self._spark, self._url, topics=self._topics))
        return self._rebuilt

    def count(self) -> int:
        """Read three of its columns."""
        aggregate(log(self._spark, self._url, topics=self._topics))
        return self._rebuilt

    def rebuild(self) -> int:
        """Rebuild the shop's own eight tables from the beginning."""
        return self._rebuild(TABLES)

    def rebuild_every(self) -> int:
        """Rebuild these and those that any choreography has, histories of states among them; per event of the same topics."""
        return self._rebuild(())

    def _rebuild(self, select: tuple[str, ...]) -> int:
        with tempfile.TemporaryDirectory() as place:
            rebuild(self._spark, self._url, Path(place) / "tables", how=How(full=True, select=select))
        return self._rebuilt

    def rules(self) -> int:
        """Audit by the rules about events: all but the differential audit."""
        self.findings = rule_findings(self._spark, self._url, self._application).count()
        return self._audited

    def decisions(self) -> int:
        """Decide everything again."""
        self.findings = decision_findings(self._spark, self._url, self._application).count()
        return self._audited


class Family:
    """This process's children and theirs: the JVM and Spark's workers."""

    def __init__(self) -> None:
        self.peak_mb: dict[str, float] = {}
        self._spent_s: dict[tuple[int, str], float] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the most memory that the JVM, and that all workers together, have meanwhile."""
        self.peak_mb = {"java": 0.0, "workers": 0.0}
        for pid, _ in self._members():
            with suppress(OSError):
                (Path("/proc") / str(pid) / "clear_refs").write_text(_RESET_PEAK)
        ended = threading.Event()
        watching = threading.Thread(target=self._watch, args=[ended])
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_EVERY_S):
            workers = 0.0
            for pid, name in self._members():
                with suppress(OSError, StopIteration, ValueError):
                    if name == "java":
                        self.peak_mb["java"] = max(self.peak_mb["java"], _field_mb(pid, "status", "VmHWM"))
                    else:
                        workers += _field_mb(pid, "smaps_rollup", "Pss_Anon")  # what they share counts once
            self.peak_mb["workers"] = max(self.peak_mb["workers"], workers)

    def cpu_s(self) -> float:
        """Return the CPU seconds of all of them that were ever seen.

        Spark's workers end when they had nothing to do for a minute, and whoever has begun them does not ask what they took.
        """
        self._members()
        return sum(self._spent_s.values())

    def _members(self) -> list[tuple[int, str]]:
        """Return who there is now, by number and name, and note what each has taken."""
        children, spent = dict[int, list[tuple[int, str]]](), dict[int, tuple[str, float]]()
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                head, _, tail = path.read_text().rpartition(")")
                pid, _, name = head.partition(" (")
                fields = tail.split()
                children.setdefault(int(fields[1]), []).append((int(pid), name))
                spent[int(pid)] = fields[_BEGAN], (int(fields[11]) + int(fields[12])) / _TICK
        found, left = list[tuple[int, str]](), [os.getpid()]
        while left:
            those = children.get(left.pop(), [])
            found += those
            left += [pid for pid, _ in those]
        for member, _ in found:
            began, cpu = spent[member]
            self._spent_s[member, began] = cpu
        return found


def _field_mb(pid: int, file: str, field: str) -> float:
    lines = (Path("/proc") / str(pid) / file).read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def main(url: str, master: str, rounds: int, seconds: float) -> None:
    """Measure, and tell."""
    spark, family = session("bench", master=master, fetch=True), Family()
    jobs = Jobs(spark, url)
    jobs.scan()
    began = ended = time.perf_counter()
    for n in range(rounds):
        last, ended = ended, time.perf_counter()
        if n and 2 * ended - last - began > seconds:
            break
        for name, job in jobs.round:
            jobs.findings = 0
            took = measured(job, family)
            print(json.dumps({"job": name, "findings": jobs.findings, **took}), flush=True)
    spark.stop()


def measured(job: Callable[[], int], family: Family) -> Mapping[str, float]:
    """Run a job; return what it was about, and what it took."""
    with family.watched():
        began, cpu = time.perf_counter(), family.cpu_s()
        events = job()
        took = {"seconds": time.perf_counter() - began, "cpu_s": family.cpu_s() - cpu}
    return {"events": events, **took, **{f"{who}_mb": mb for who, mb in family.peak_mb.items()}}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
