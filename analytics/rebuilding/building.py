"""Builds one version of the tables: each event decoded once, and the tables in their order."""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial, reduce
from itertools import pairwise, takewhile
from secrets import token_hex
from threading import Thread
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.util import inheritable_thread_target

from analytics.history.building import HistoryBuild
from analytics.history.fold import Cut
from analytics.projection import Projection
from analytics.rebuilding.catalogue import Catalogue
from analytics.rebuilding.facts import rows_of
from analytics.rebuilding.quality import (
    QUARANTINE,
    Broken,
    broken_events,
    broken_rows,
    nothing_broken,
    refuse_broken,
)
from analytics.rebuilding.staged_log import StagedLog
from analytics.rebuilding.step_building import write_steps
from analytics.rebuilding.steps import STEPS
from analytics.selection import Only
from analytics.session import configured
from analytics.stores import AnyVersion
from analytics.tables import Events, Table
from eventlib.errors import WiringError
from eventlib.log.base import TopicPartition
from eventlib.model.event import contract_of

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many steps are done, and how many there are."""

_MANY_CONDITIONS = {"spark.sql.codegen.wholeStage": "false"}  # one method of all of them would not be compiled well


@dataclass
class Build:
    """Builds one version, from the one before if there is one; `enforced` refuses new rows that break a rule."""

    spark: SparkSession
    url: str
    catalogue: Catalogue
    version: AnyVersion
    progress: Progress
    enforced: bool = False
    broken: tuple[Broken, ...] = ()
    _new: dict[str, Callable[[], DataFrame]] = field(default_factory=dict)
    _log: StagedLog = field(init=False)
    _as_before: set[str] = field(default_factory=set)
    _done: int = 0

    def make(
        self, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], at: datetime | None
    ) -> tuple[int, int]:
        """Write all tables; return how many records were read, and how many of them cannot be decoded."""
        until = None if at is None else at + timedelta(milliseconds=1)
        only: Only = {"begin": begin, "end": ends, "until": until}
        self._log = StagedLog(self.spark, self.url, self.catalogue, self.version, only)
        self._tell("reading the log")
        self._log.stage()
        self._make_all()
        return self._log.counts(self._new[STEPS]() if STEPS in self._new else None)

    def _has(self, selection: Events) -> bool:
        return not self._log.new_types.isdisjoint(contract_of(event).type for event in selection.types)

    def _make_all(self) -> None:
        """Make each table once those are there that it reads: queries are planned here, and run in threads."""
        waiting, made = {table.name: table for table in self.catalogue.tables}, set[str]()
        after = {name: {*table.needs} for name, table in waiting.items()}
        folded = [name for name in waiting if name in self.catalogue.folded]
        after |= {name: {earlier} for earlier, name in pairwise(folded)}  # all are of one fold
        if QUARANTINE in waiting:
            after[QUARANTINE] = {*takewhile(QUARANTINE.__ne__, waiting)}
        with ConcurrentJobs(self.spark) as jobs:
            while not made.issuperset(after):
                for table in [each for name, each in waiting.items() if made.issuperset(after[name])]:
                    self._tell(f"table {table.name}")
                    jobs.start(table.name, self._making(table))
                    del waiting[table.name]
                ended = jobs.ended()
                made.update(ended)
                for name in after.keys() & ended:
                    jobs.start(f"settling {name}", partial(self.version.settle, name))

    def _making(self, table: Table) -> Callable[[], None]:
        """Plan a table, and return what makes it."""
        if table.name == STEPS:
            return self._write_steps
        if table.name in self.catalogue.folded:
            return partial(self._history.write, self.catalogue.folded[table.name])
        if table.name == QUARANTINE:
            return self._write_quarantine
        if self.version.before is not None and self._is_as_before(table):
            self._as_before.add(table.name)
            return partial(self.version.keep, table.name, hidden=table.hidden)
        if table.projection is not None:
            return partial(self._project, table, table.projection)
        inputs = {name: self._input(table, read) for name, read in table.reads.items()}
        rows = table.make(**inputs)
        if table.increment == "merge":
            rows = self._merged(table, rows)
        return partial(self._write, table, rows)

    def _write(self, table: Table, rows: DataFrame) -> None:
        written = self.version.write(table.name, rows, grows=table.increment == "append", hidden=table.hidden)
        self._new[table.name] = lambda: written

    def _write_steps(self) -> None:
        steps = write_steps(self._log)
        self._log.keep_others()
        self._new[STEPS] = lambda: steps

    def _project(self, table: Table, projection: Projection) -> None:
        (event,) = table.selections[0].types
        self._new[table.name] = self.version.project(table.name, projection, self._log.staged(event), grows=True)

    def _is_as_before(self, table: Table) -> bool:
        """Return whether nothing that a table is made of has changed: in a small increment, that is so of most."""
        return self._as_before.issuperset(table.needs) and not any(map(self._has, table.selections))

    @cached_property
    def _history(self) -> HistoryBuild:
        until = self._log.only["until"]
        cut = Cut(self._log.only["end"], None if until is None else until - timedelta(milliseconds=1))
        return HistoryBuild(self.spark, self.url, self.catalogue.fold, self.version, cut)

    def _input(self, table: Table, read: str | Events) -> DataFrame:
        if isinstance(read, Events):
            if table.increment == "whole":
                raise WiringError(
                    f"table {table.name} ({table.place}) is made of whole tables: let it read the events' tables"
                )
            return rows_of(self._log.facts, read, f"table {table.name} ({table.place})")
        if table.increment == "whole":
            return self.version.read(read)
        return self.version.read(read).limit(0) if read in self._as_before else self._new[read]()

    def _merged(self, table: Table, rows: DataFrame) -> DataFrame:
        earlier = self.version.earlier(table.name)
        return table.merged(rows if earlier is None else earlier.unionByName(rows))

    # --- data quality

    def _write_quarantine(self) -> None:
        """Note new rows that break a rule, and all that do of tables that are rewritten."""
        tables = [table for table in self.catalogue.tables if table.name in self._new and not table.hidden]
        news = [table.name for table in tables if any(map(self._has, table.selections))]
        found = broken_events(self._log.facts, news, self._log.log.texts)
        own = [broken_rows(table, self._new[table.name]()) for table in tables if table.place]
        found += [rows for rows in own if rows is not None]
        with configured(self.spark, _MANY_CONDITIONS):
            rows = reduce(DataFrame.unionAll, [nothing_broken(self.spark), *found])
            broken = self.version.stage("broken", self._log.in_few_files(rows))
        counted = broken.groupBy("table", "rule", "is_older").count().orderBy("table", "rule", "is_older").collect()
        self.broken = tuple(Broken(*row) for row in counted)
        if self.enforced:
            refuse_broken(self.broken)
        if (earlier := self.version.earlier(QUARANTINE)) is None:
            self.version.take(QUARANTINE, broken, "broken")
            return
        grown = [*self._as_before, *(table.name for table in tables if table.increment == "append")]
        kept = earlier.filter(f.col("table").isin(*grown)).select(*broken.columns)
        self.version.write(QUARANTINE, self._log.in_few_files(broken.unionAll(kept)))

    def told(self, step: str) -> None:
        """Tell that a step begins."""
        self.progress(step, self._done, len(self.catalogue.tables) + 1)

    def _tell(self, what: str) -> None:
        self.told(what)
        self._done += 1


_AT_ONCE = 4


class ConcurrentJobs:
    """Runs named work in threads, with the local properties of the thread that begins it.

    Without PySpark's pinned threads there are no such properties: whatever thread of the JVM is free runs a job.
    Guarantee: when its context ends, no thread runs any more; jobs are cancelled if an interrupt ends it, all of the session's
    where threads are not pinned.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._tag = spark, f"rebuild-{token_hex(4)}"
        self._is_pinned = inheritable_thread_target(spark) is not spark  # type: ignore[comparison-overlap]  # it is then
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._running = dict[Future[None], str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Wait for what is running, and begin nothing more."""
        if kind is not None and not issubclass(kind, Exception):
            # In a thread: this one's connection to the JVM may have been interrupted in a call.
            Thread(target=self._cancel, daemon=True).start()
        self._pool.shutdown(cancel_futures=True)

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Run work under a name."""
        run = inheritable_thread_target(self._spark)(self._tagged) if self._is_pinned else _run
        self._running[self._pool.submit(run, work)] = name

    def _cancel(self) -> None:
        context = self._spark.sparkContext
        if self._is_pinned:
            context.cancelJobsWithTag(self._tag)
        else:
            context.cancelAllJobs()

    def _tagged(self, work: Callable[[], None]) -> None:
        self._spark.sparkContext.addJobTag(self._tag)
        work()

    def ended(self) -> list[str]:
        """Wait until work has ended, and return the names of all that has. Raises: as the work does."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        names = [self._running.pop(each) for each in done]
        for each in done:
            each.result()
        return names


def _run(work: Callable[[], None]) -> None:
    work()
