"""Builds one version of the tables: each event decoded once, and the tables in their order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.history.building import HistoryBuild
from analytics.history.fold import Cut
from analytics.projection import Projection
from analytics.rebuilding.catalogue import Catalogue
from analytics.rebuilding.facts import Facts, rows_of
from analytics.rebuilding.layout import Fields, Layout, fields_of
from analytics.rebuilding.quality import (
    QUARANTINE,
    Broken,
    broken_events,
    broken_rows,
    nothing_broken,
    refuse_broken,
)
from analytics.rebuilding.steps import CAUSES, STEPS, lacks_cause
from analytics.selection import Only
from analytics.session import configured
from analytics.stores import AnyVersion, Staged
from analytics.tables import Events, Table
from eventlib.errors import WiringError
from eventlib.log.archive.place import SCHEME
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event, contract_of

Progress = Callable[[str, int, int], None]
"""Called with the current step, how many steps are done, and how many there are."""

_OTHERS = "other_events"
"""The ids of events that are no steps, but may be causes of some: kept for the next version, and not for readers."""

_MANY_CONDITIONS = {"spark.sql.codegen.wholeStage": "false"}  # one method of all of them would not be compiled well

_FEW = 100_000
"""So many ids are sent to every task, rather than all events shuffled by their ids."""


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
    _facts: list[tuple[Layout, DataFrame]] = field(default_factory=list)
    _only: Only = field(default_factory=Only)
    _as_before: set[str] = field(default_factory=set)
    _done: int = 0

    def make(
        self, begin: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], at: datetime | None
    ) -> tuple[int, int]:
        """Write all tables; return how many records were read, and how many of them cannot be decoded."""
        self._only = {"begin": begin, "end": ends, "until": None if at is None else at + timedelta(milliseconds=1)}
        self._tell("reading the log")
        self._stage()
        for table in self.catalogue.tables:
            self._tell(table.name)
            self._make(table)
        return self._counts()

    # --- the log

    @cached_property
    def _log(self) -> Facts:
        return Facts(self.spark, self.url, self._only)

    @cached_property
    def _step_fields(self) -> Fields:
        """What is decoded for `saga_steps`, with what tells whether it could be."""
        if not self.catalogue.has(STEPS):
            return {}
        steps = self.catalogue.steps
        return {
            event: fields_of([Events((event,), tuple(names))])[event] if names else ()
            for event, names in steps.fields.items()
        }

    @cached_property
    def _staged_fields(self) -> Fields:
        """What is decoded and kept in files: what more than `saga_steps` reads, and all where reading the log is slow."""
        wanted = self.catalogue.wanted()
        events = wanted if self._is_archive else self.catalogue.events
        both = {event: (*wanted.get(event, ()), *self._step_fields.get(event, ())) for event in events}
        return {event: tuple(dict.fromkeys(names)) for event, names in both.items()}

    @property
    def _is_archive(self) -> bool:
        return self.url.startswith(SCHEME)

    def _stage(self) -> None:
        by_type = any(len(selection.types) == 1 for table in self.catalogue.tables for selection in table.selections)
        for number, (layout, rows) in enumerate(self._log.of(self._staged_fields)):
            staged = self.version.stage(f"facts-{number}", self._in_few_files(rows), "type" if by_type else None)
            self._facts.append((layout, staged))

    def _records(self, events: Sequence[type[Event]]) -> DataFrame:
        """Return ids, times and types of some events, of new records."""
        if self._is_archive:
            return self._log.records(events).select(*CAUSES)
        types = f.col("type").isin(*(contract_of(event).type for event in events))
        return reduce(DataFrame.unionAll, [rows.filter(types).select(*CAUSES) for _, rows in self._facts])

    def _has(self, selection: Events) -> bool:
        return not self._new_types.isdisjoint(contract_of(event).type for event in selection.types)

    @cached_property
    def _new_types(self) -> frozenset[str]:
        """The types of the new records."""
        types = reduce(DataFrame.unionAll, [rows.select("type") for _, rows in self._facts])
        return frozenset(row.type for row in types.distinct().collect())

    def _in_few_files(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1))

    # --- the tables

    def _make(self, table: Table) -> None:
        if table.name == STEPS:
            steps = self._write_steps()
            self._new[STEPS] = lambda: steps
            return
        if table.name in self.catalogue.folded:
            self._history.write(self.catalogue.folded[table.name])
            return
        if table.name == QUARANTINE:
            self._write_quarantine()
            return
        if self.version.before is not None and self._is_as_before(table):
            self.version.keep(table.name, hidden=table.hidden)
            self._as_before.add(table.name)
            return
        if table.projection is not None:
            self._new[table.name] = self._project(table, table.projection)
            return
        inputs = {name: self._input(table, read) for name, read in table.reads.items()}
        rows = table.make(**inputs)
        if table.increment == "merge":
            rows = self._merged(table, rows)
        written = self.version.write(table.name, rows, grows=table.increment == "append", hidden=table.hidden)
        self._new[table.name] = lambda: written

    def _project(self, table: Table, projection: Projection) -> Callable[[], DataFrame]:
        (event,) = table.selections[0].types
        at = next(i for i, (layout, _) in enumerate(self._facts) if event in layout.events)
        files = self.version.staged(f"facts-{at}", contract_of(event).type)
        return self.version.project(table.name, projection, Staged(self._facts[at][1], files), grows=True)

    def _is_as_before(self, table: Table) -> bool:
        """Return whether nothing that a table is made of has changed: in a small increment, that is so of most."""
        return self._as_before.issuperset(table.needs) and not any(map(self._has, table.selections))

    @cached_property
    def _history(self) -> HistoryBuild:
        until = self._only["until"]
        cut = Cut(self._only["end"], None if until is None else until - timedelta(milliseconds=1))
        return HistoryBuild(self.spark, self.url, self.catalogue.fold, self.version, cut)

    def _input(self, table: Table, read: str | Events) -> DataFrame:
        if isinstance(read, Events):
            if table.increment == "whole":
                raise WiringError(
                    f"table {table.name} ({table.place}) is made of whole tables: let it read the events' tables"
                )
            return rows_of(self._facts, read, f"table {table.name} ({table.place})")
        if table.increment == "whole":
            return self.version.read(read)
        return self.version.read(read).limit(0) if read in self._as_before else self._new[read]()

    def _merged(self, table: Table, rows: DataFrame) -> DataFrame:
        earlier = self.version.earlier(table.name)
        return table.merged(rows if earlier is None else earlier.unionByName(rows))

    # --- the steps of sagas

    def _write_steps(self) -> DataFrame:
        steps = self.catalogue.steps
        there = {event for layout, _ in self._facts for event in layout.events}
        direct = {event: names for event, names in self._step_fields.items() if event not in there}
        facts = [*self._facts, *self._log.of(direct)]
        rows = [steps.rows(each) for layout, each in facts if {*layout.events} & {*steps.events}]
        found = reduce(DataFrame.unionAll, rows)
        by_saga = steps.by_saga(found, self.version.earlier(STEPS))
        written = self.version.stage_made("steps", by_saga, steps.with_causes, steps.schema(found))
        self._keep_other_events()
        lacking = written.filter(lacks_cause())
        if (count := lacking.count()) == 0:
            return self.version.take(STEPS, written, "steps", grows=True)
        causes = self._causes(lacking.select(f.col("causation_id").alias("id")).distinct(), count)
        return self.version.write(STEPS, steps.with_other_causes(written, lacking, causes), grows=True)

    def _keep_other_events(self) -> None:
        """Keep the ids of events that are no steps."""
        others = [event for event in self.catalogue.events if event not in self.catalogue.steps.events]
        if others:
            self.version.write(_OTHERS, self._in_few_files(self._records(others)), grows=True, hidden=True)

    def _causes(self, ids: DataFrame, count: int) -> DataFrame:
        """Return the events that have some ids: new ones, those before, and those after the end of a partition.

        An event is on the log after its cause, but the partitions' ends may have been read in another order; so a cause is also
        looked up in what the log has by now.
        """
        later: Only = {"begin": self._only["end"]}
        ends = Facts(self.spark, self.url, later).records(self.catalogue.events).select(*CAUSES)
        found = [self._records(self.catalogue.events), ends]
        known = [self.version.earlier(name) for name in (STEPS, _OTHERS)]
        both = reduce(DataFrame.unionAll, [*found, *(each.select(*CAUSES) for each in known if each is not None)])
        return both.join(f.broadcast(ids) if count <= _FEW else ids, "id", "left_semi")

    # --- data quality

    def _write_quarantine(self) -> None:
        """Note new rows that break a rule, and all that do of tables that are rewritten."""
        tables = [table for table in self.catalogue.tables if table.name in self._new and not table.hidden]
        news = [table.name for table in tables if any(map(self._has, table.selections))]
        found = broken_events(self._facts, news, self._log.texts)
        own = [broken_rows(table, self._new[table.name]()) for table in tables if table.place]
        found += [rows for rows in own if rows is not None]
        with configured(self.spark, _MANY_CONDITIONS):
            broken = self.version.stage("broken", reduce(DataFrame.unionAll, [nothing_broken(self.spark), *found]))
        counted = broken.groupBy("table", "rule", "is_older").count().orderBy("table", "rule", "is_older").collect()
        self.broken = tuple(Broken(*row) for row in counted)
        if self.enforced:
            refuse_broken(self.broken)
        grown = [*self._as_before, *(table.name for table in tables if table.increment == "append")]
        if (earlier := self.version.earlier(QUARANTINE)) is not None:
            broken = broken.unionAll(earlier.filter(f.col("table").isin(*grown)).select(*broken.columns))
        self.version.write(QUARANTINE, self._in_few_files(broken))

    # --- what was read

    def _counts(self) -> tuple[int, int]:
        """Return how many records there were, and how many of them were not decoded; counted on files."""
        read = self._records(self.catalogue.events).count()
        other = f.col("decoded") | f.col("type").isin(*(contract_of(event).type for event in self._step_fields))
        undecoded = sum(rows.filter(~other).count() for _, rows in self._facts)
        if self._step_fields:
            undecoded += self._records(list(self._step_fields)).count() - self._new[STEPS]().count()
        return read, undecoded

    def told(self, step: str) -> None:
        """Tell that a step begins."""
        self.progress(step, self._done, len(self.catalogue.tables) + 1)

    def _tell(self, what: str) -> None:
        self.told(what)
        self._done += 1
