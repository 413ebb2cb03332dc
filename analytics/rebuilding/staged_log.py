"""The new records of a log as a rebuild reads them: each decoded once, and kept in files below a version."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analytics.rebuilding.catalogue import Catalogue
from analytics.rebuilding.facts import Facts
from analytics.rebuilding.layout import Fields, Layout, fields_of
from analytics.rebuilding.log_pass import LogPass, facts_directory
from analytics.rebuilding.scanning import Taken
from analytics.rebuilding.steps import CAUSES, STEPS
from analytics.selection import Only
from analytics.sources import is_in_files
from analytics.stores import AnyVersion, Staged
from analytics.tables import Events
from eventlib.log.archive.place import SCHEME, is_stored
from eventlib.model.event import Event, contract_of

OTHERS = "other_events"
"""The ids of events that are no steps, but may be causes of some: kept for the next version, and not for readers."""


@dataclass
class StagedLog:
    """The records of a log within `only`, as a version's tables need them.

    `facts` are those decoded, and `taken` what was read without Spark's rows, of the events in `passed`.
    """

    spark: SparkSession
    url: str
    catalogue: Catalogue
    version: AnyVersion
    only: Only
    facts: list[tuple[Layout, DataFrame]] = field(default_factory=list)
    taken: Taken = field(default_factory=Taken)

    @cached_property
    def log(self) -> Facts:
        """The log."""
        return Facts(self.spark, self.url, self.only)

    def step_frames(self) -> list[DataFrame]:
        """Return facts with all steps that were not taken without Spark's rows."""
        there = {event for layout, _ in self.facts for event in layout.events}
        direct = {event: names for event, names in self._step_fields.items() if event not in there | self.passed}
        ours = {*self.catalogue.steps.events} - self.passed
        return [rows for layout, rows in [*self.facts, *self.log.of(direct)] if ours & {*layout.events}]

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

    @cached_property
    def _pass(self) -> LogPass | None:
        """What takes events without Spark's rows, if both the log and the tables are in files."""
        where = self.version.shared
        if where is None or not is_in_files(self.url) or is_stored(self.url):
            return None
        wanted, steps = self.catalogue.wanted(), self.catalogue.steps
        return LogPass(self.log, steps, self.catalogue.events, wanted, self._step_fields, where)

    @cached_property
    def passed(self) -> frozenset[type[Event]]:
        """The events that were read so."""
        return frozenset() if self._pass is None else frozenset(self._pass.events)

    def stage(self) -> None:
        """Read and keep what is new. Raises: LogCorrupt."""
        if self._pass is not None:
            self.taken = self._pass.run(self.tasks, OTHERS if self.catalogue.has(STEPS) else "")
            self.facts += [(layout, self._pass.facts(n)) for n, layout in enumerate(self._pass.layouts)]
        by_type = any(len(selection.types) == 1 for table in self.catalogue.tables for selection in table.selections)
        fields = {event: names for event, names in self._staged_fields.items() if event not in self.passed}
        for layout, rows in self.log.of(fields):
            name = facts_directory(len(self.facts))
            self.facts.append((layout, self.version.stage(name, self.in_few_files(rows), "type" if by_type else None)))

    def records(self, events: Sequence[type[Event]]) -> DataFrame:
        """Return ids, times and types of some events, of new records."""
        if self._is_archive:
            return self.log.records(events).select(*CAUSES)
        types = f.col("type").isin(*(contract_of(event).type for event in events))
        return reduce(DataFrame.unionAll, [rows.filter(types).select(*CAUSES) for _, rows in self.facts])

    @cached_property
    def new_types(self) -> frozenset[str]:
        """The types of the new records."""
        found = {kind for kind, records in self.taken.records.items() if records}
        staged = [rows.select("type") for layout, rows in self.facts if self.passed.isdisjoint(layout.events)]
        if staged:
            found.update(row.type for row in reduce(DataFrame.unionAll, staged).distinct().collect())
        return frozenset(found)

    @property
    def tasks(self) -> int:
        """How many tasks read and write, by the settings of a rebuild."""
        return int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def in_few_files(self, rows: DataFrame) -> DataFrame:
        """Return rows to be written in few files."""
        return rows.coalesce(self.tasks)

    def staged(self, event: type[Event]) -> Staged:
        """Return the facts with those of an event, and the files that have these alone."""
        at = next(i for i, (layout, _) in enumerate(self.facts) if event in layout.events)
        return Staged(self.facts[at][1], self.version.staged(facts_directory(at), contract_of(event).type))

    def keep_others(self) -> None:
        """Keep the ids of events that are no steps."""
        steps = self.catalogue.steps.events
        others = [event for event in self.catalogue.events if event not in steps and event not in self.passed]
        rows = [self.records(others)] if others else []
        if self._pass is not None:
            rows.append(self._pass.ids(OTHERS))
        if others:
            self.version.write(OTHERS, self.in_few_files(reduce(DataFrame.unionAll, rows)), grows=True, hidden=True)
        elif rows:
            self.version.take(OTHERS, rows[0], OTHERS, grows=True, hidden=True)

    def ids(self, steps_made: Sequence[DataFrame]) -> list[DataFrame]:
        """Return the ids, times and types of all new records: of `steps_made`, if a pass has taken some."""
        if self._pass is None:
            return [self.records(self.catalogue.events)]
        others = [event for event in self.catalogue.events if event not in self.passed]
        found = [self._pass.ids(OTHERS), *(rows.select(*CAUSES) for rows in steps_made)]
        return [*found, self.records(others)] if others else found

    def counts(self, steps_made: DataFrame | None) -> tuple[int, int]:
        """Return how many records there were, and how many of them were not decoded; those that Spark has read, from files.

        `steps_made` are the new rows of `saga_steps`, if they are made.
        """
        steps, taken = {contract_of(event).type for event in self._step_fields}, self.taken
        undecoded = sum(taken.records[kind] - taken.steps[kind] for kind in steps)
        undecoded += sum(n for kind, n in taken.damaged.items() if kind not in steps)
        others = [event for event in self.catalogue.events if event not in self.passed]
        if not others:
            return taken.records.total(), undecoded
        staged = [rows for layout, rows in self.facts if self.passed.isdisjoint(layout.events)]
        undecoded += sum(rows.filter(~(f.col("decoded") | f.col("type").isin(*steps))).count() for rows in staged)
        stepped = [event for event in others if event in self._step_fields]
        if stepped and steps_made is not None:
            undecoded += self.records(stepped).count() - (steps_made.count() - taken.steps.total())
        return taken.records.total() + self.records(others).count(), undecoded
