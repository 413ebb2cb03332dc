"""Rebuilds the tables: in full or incrementally, with the same result."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.asking import ask, spans_of
from analytics.log import log
from analytics.rebuilding import kept
from analytics.rebuilding.dropped import dropped_of, incomplete
from analytics.rebuilding.facts import EVENTS, META, TOPICS, Facts
from analytics.rebuilding.tables import (
    DEFINITION,
    NOT_OF_LINES,
    OF_ORDERS,
    OF_RECEIPTS,
    OF_STEPS,
    order_lines,
    saga_steps,
    stock_levels,
    stock_movements,
)
from analytics.rebuilding.versions import KEPT, Manifest, Version, current, read_manifest
from analytics.selection import Only
from eventlib.durable import alone
from eventlib.errors import LogUnavailable, WiringError
from eventlib.log.archive.files import SCHEME
from eventlib.log.base import Log, TopicPartition
from eventlib.model.event import contract_of
from eventlib.values import to_ms

AsOf = datetime | Mapping[TopicPartition, int]
"""A time (inclusive); or the first offset of each partition that is excluded."""

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many steps are done, and how many there are."""

_STEPS = (
    "reading the log",
    "saga_steps",
    "order_lines",
    "stock_movements",
    KEPT,
    *OF_ORDERS,
    "stock_levels",
)
_TYPES = [contract_of(event).type for event in EVENTS]
_ROWS_AT_ONCE = 1_000_000
"""How many rows one Spark task sorts at most, about: this bounds its memory."""


@dataclass(frozen=True)
class How:
    """How to rebuild: `full` reads the whole log, not only new records; `incomplete` accepts dropped records.

    `keep` is how many of the newest versions stay, for current readers.
    """

    full: bool = False
    incomplete: bool = False
    keep: int = 2


NEW = How()


@dataclass(frozen=True)
class Rebuilt:
    """The result of one run: the offsets that it read, the rows of its tables, and the undecodable records."""

    manifest: Manifest
    full: bool
    read: Mapping[TopicPartition, range]
    records: int
    undecodable: int
    seconds: float


def rebuild(
    spark: SparkSession,
    url: str,
    place: Path,
    *,
    as_of: AsOf | None = None,
    how: How = NEW,
    progress: Progress = lambda *_: None,
) -> Rebuilt:
    """Bring the tables in `place` up to a log's end, or as of a time or of offsets.

    Reads only new records, unless `full`, or where the existing tables cannot be continued: they are as of a time, later than
    `as_of`, or of an older release. Guarantee: the tables are those of a full rebuild at the same offsets, they all change
    atomically, and a run that finds nothing new changes nothing.
    Raises: LogUnavailable when there is no log, it has dropped needed records and `incomplete` is not set, or while another
    process rebuilds there; WiringError when the tables are another log's, or the log has less than they.
    """
    began = perf_counter()
    with alone(place, "rebuilds in"):
        log_id, there = ask(url, _places)
        ends = _ends(there, as_of)
        version = current(place)
        before = None if how.full or version is None else _going_on(read_manifest(version), log_id, ends, place, as_of)
        begin = {p: 0 if before is None else before.ends.get(p, 0) for p in ends}
        dropped = dropped_of(url, there, begin, ends)
        if dropped and not how.incomplete:
            raise LogUnavailable(incomplete(url, dropped))
        new = {p: range(begin[p], end) for p, end in ends.items() if end > begin[p]}
        if before is not None and not new:
            return Rebuilt(before, False, {}, 0, 0, perf_counter() - began)
        number = 1 + (0 if version is None else int(version.name))
        run = _Run(spark, url, Version(place, number), version if before else None, progress)
        with run.version, _settings(spark, sum(map(len, new.values()))):
            records, undecodable = run.make(begin, ends, as_of if isinstance(as_of, datetime) else None)
        manifest = Manifest(
            number=number,
            definition=DEFINITION,
            log_id=log_id,
            log_url=url,
            as_of_ms=to_ms(as_of) if isinstance(as_of, datetime) else None,
            topics=_by_topic(ends),
            rows=run.version.rows(),
            dropped=(*(before.dropped if before else ()), *dropped),
        )
        run.version.commit(manifest, how.keep)
    return Rebuilt(manifest, before is None, new, records, undecodable, perf_counter() - began)


async def _places(log: Log) -> tuple[str, Mapping[TopicPartition, range]]:
    return log.log_id.removeprefix("archive-"), await spans_of(log, TOPICS)


def _ends(there: Mapping[TopicPartition, range], as_of: AsOf | None) -> dict[TopicPartition, int]:
    if as_of is None or isinstance(as_of, datetime):
        return {p: span.stop for p, span in there.items()}
    beyond = [p for p, end in as_of.items() if p in there and end > there[p].stop]
    if beyond:
        (topic, partition), end = beyond[0], there[beyond[0]].stop
        raise WiringError(f"--as-of names offset {as_of[beyond[0]]} of {topic}/{partition}, which ends at {end}")
    return {p: as_of.get(p, 0) for p in there}


def _going_on(
    before: Manifest, log_id: str, ends: Mapping[TopicPartition, int], place: Path, as_of: AsOf | None
) -> Manifest | None:
    """Return the tables to continue from; None when they are rebuilt from the beginning."""
    if before.log_id != log_id:
        raise WiringError(f"the tables in {place} are of {before.log_url}, another log: rebuild to another directory")
    if before.as_of_ms is not None or isinstance(as_of, datetime) or before.definition != DEFINITION:
        return None
    less = [p for p, end in before.ends.items() if ends.get(p, 0) < end]
    if less and as_of is None:
        (topic, partition) = less[0]
        raise WiringError(
            f"{topic}/{partition} ends at {ends.get(less[0], 0)}, and the tables in {place} go up to {before.ends[less[0]]}: "
            "read the log itself, or its archive once it is up to date; or rebuild with --full"
        )
    return None if less else before


def _by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, tuple[int, ...]]:
    topics = sorted({topic for topic, _ in ends})
    return {topic: tuple(end for (name, _), end in sorted(ends.items()) if name == topic) for topic in topics}


@contextmanager
def _settings(spark: SparkSession, records: int) -> Iterator[None]:
    """Set Spark's number of tasks by the memory of each, and the time format that every reader supports."""
    name = "spark.sql.shuffle.partitions"
    tasks = max(int(spark.conf.get(name) or 0), spark.sparkContext.defaultParallelism, records // _ROWS_AT_ONCE)
    wanted = {name: str(tasks), "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for key, text in before.items():
            spark.conf.set(key, text or "")


@dataclass
class _Run:
    """Builds one version, from `before` if there is one."""

    spark: SparkSession
    url: str
    version: Version
    before: Path | None
    progress: Progress

    def make(
        self, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], at: datetime | None
    ) -> tuple[int, int]:
        """Write all tables; return how many records were read, and how many of them cannot be decoded."""
        self._tell("reading the log")
        until = None if at is None else at + timedelta(milliseconds=1)
        facts = self._facts({"begin": begin, "end": ends, "until": until})
        of_orders = self.version.stage("facts", facts.of(*NOT_OF_LINES))
        of_lines = facts.of(kept.ABOUT_LINES, OF_STEPS)
        both = of_orders.select(of_lines.columns).unionAll(of_lines)
        steps = self._add("saga_steps", saga_steps(both, self._causes(facts, ends)))
        self._add("order_lines", order_lines(of_orders))
        received = stock_movements(facts.of(*OF_RECEIPTS))
        moved = self._add("stock_movements", stock_movements(steps).unionAll(received))
        self._tell(KEPT)
        about = of_orders.filter(kept.is_one(*kept.ABOUT_ORDERS))
        orders = self.version.write(KEPT, kept.by_order(steps, about, self._had(KEPT)))
        for table, made_of in OF_ORDERS.items():
            self._tell(table)
            self.version.write(table, made_of(orders))
        self._tell("stock_levels")
        self.version.write("stock_levels", stock_levels(moved, self._had("stock_levels")))
        # Counted on the written files: Spark reports nothing for a query that it finds empty while running.
        read, received_count = facts.records(EVENTS).count(), moved.filter(f.col("kind") == "received").count()
        return read, read - steps.count() - received_count

    def _facts(self, only: Only) -> Facts:
        """Return the new facts: of an archive directly, of another log after it is written to files."""
        facts = Facts(self.spark, self.url, only)
        if self.url.startswith(SCHEME):
            return facts
        return replace(facts, staged=self.version.stage("log", facts.records(EVENTS).select(*META, "key", "value")))

    def _add(self, table: str, rows: DataFrame) -> DataFrame:
        self._tell(table)
        return self.version.write(table, rows, self.before / table if self.before else None)

    def _causes(self, facts: Facts, ends: Mapping[TopicPartition, int]) -> DataFrame:
        """Return all events that may be causes: the new ones, those before, and those after the end of a partition.

        An event is on the log after its cause, but the partitions' ends may have been read in another order; so a cause is also
        looked up in what the log has by now.
        """
        columns = ("id", "recorded_at", "type")
        later = log(self.spark, self.url, topics=TOPICS, types=_TYPES, begin=ends).select(*columns)
        causes = facts.records(EVENTS).select(*columns).unionAll(later)
        steps = self._had("saga_steps")
        return causes if steps is None else causes.unionAll(steps.select(*columns))

    def _had(self, table: str) -> DataFrame | None:
        return None if self.before is None else self.spark.read.parquet(str(self.before / table))

    def _tell(self, what: str) -> None:
        self.progress(what, _STEPS.index(what), len(_STEPS))
