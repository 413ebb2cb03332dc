"""Folds the journals of a log in Spark's workers, task by task, up to a cut; an increment goes on where the last ended."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from hashlib import blake2b

from pydantic_core import from_json
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.application import Application
from analytics.audit.routing import ROUTED, Routes
from analytics.audit.rows import RECORD
from analytics.history.rows import StagedRows, staged_schema
from analytics.history.tables import FoldTable, tables_of
from analytics.history.task_rows import TASK_KIND, TaskRows
from analytics.selection import Only
from analytics.task_pass import TaskOfPass, TaskPass, Visitor
from eventlib.eventlog import EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import contract_of
from eventlib.model.schema.derive import record_of
from eventlib.model.schema.types import schema_text
from eventlib.runtime.records import code_version

_FORMAT = 1


@dataclass(frozen=True)
class Position:
    """Where a task's fold has ended: the next offsets of its journal and inputs, and from where on its outputs are read."""

    next_entry: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


Positions = Mapping[int, Position]
"""Where the fold of each task has ended, by the task's number."""


@dataclass(frozen=True)
class Cut:
    """What is folded: the journals up to `ends`, as far as their inputs are before `ends` too, and up to a time (inclusive)."""

    ends: Mapping[TopicPartition, int]
    until: datetime | None = None


@dataclass(frozen=True)
class Fold:
    """The fold tables of an application, made from its journals, inputs and outputs.

    Services that read a compacted topic are left out: their past is not kept. Guarantee: states are those that
    `eventlib history` shows; no handler and no effect runs. Tables after increments equal those of one fold up to the
    same cut.
    """

    application: Application

    @cached_property
    def routes(self) -> Routes:
        """The tasks."""
        return Routes(self.application.choreography)

    @cached_property
    def tables(self) -> Sequence[FoldTable]:
        """The tables. Raises: WiringError for a state that contains itself."""
        return tables_of(self.application.choreography)

    @property
    def topics(self) -> list[str]:
        """The topics that are read: those of the events, and the journals."""
        return [*self.routes.topics, *self.routes.journals]

    @cached_property
    def schema(self) -> t.StructType:
        """The columns of `rows` and `carried`."""
        return staged_schema(self.application.choreography)

    @cached_property
    def version(self) -> str:
        """What a fold depends on beside the log: with another one it is made anew (16 hex digits)."""
        choreography, services = self.application.choreography, self.routes.services
        wiring = [(each.name, each.partitions, [d.name for d in each.deciders]) for each in services]
        states = [schema_text(record_of(decider.state)) for each in services for decider in each.deciders]
        parts = [_FORMAT, code_version(choreography), wiring, states, self.application.story_field]
        return blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()

    def positions(self, carried: DataFrame | None) -> Positions:
        """Return where the fold of a version's `carried` rows has ended, to go on from there; nothing where it cannot."""
        if carried is None:
            return {}
        rows = carried.filter(f.col("kind") == TASK_KIND).select("task", "name", "carried").collect()
        if any(version != self.version for _, version, _ in rows):
            return {}
        return {task: _position(bytes(packed)) for task, _, packed in rows}

    def active(self, positions: Positions, cut: Cut) -> list[int]:
        """Return the numbers of the tasks whose journals have gone on since."""
        found = list[int]()
        for number in self.routes.numbers:
            service, partition = self.routes.task(number)
            known = positions.get(number)
            if cut.ends.get((service.journal.name, partition), 0) > (0 if known is None else known.next_entry):
                found.append(number)
        return found

    def begin(self, positions: Positions, cut: Cut) -> dict[TopicPartition, int]:
        """Return the offsets that `rows` reads from: what a log has dropped after them is missing."""
        found = {place: end for place, end in cut.ends.items() if place[0] in self.topics}
        for number in self.active(positions, cut):
            for place, offset in self._begin_of(number, positions.get(number), found).items():
                found[place] = min(offset, found.get(place, offset))
        return found

    def rows(
        self, spark: SparkSession, url: str, cut: Cut, positions: Positions, carried: DataFrame | None
    ) -> DataFrame:
        """Return the rows of all tables and what is carried on, for `FoldTable` and `carried` to take apart: stage them.

        Outputs are read up to the log's end, since those of an entry may be beyond `cut` in their partitions.
        Raises: as `analytics.log` does.
        """
        only: Only = {
            "begin": self.begin(positions, cut),
            "end": {p: end for p, end in cut.ends.items() if p[0] in self.routes.journals},
            "until": None if cut.until is None else cut.until + timedelta(milliseconds=1),
        }
        active = frozenset(self.active(positions, cut))
        added = None if carried is None or not positions else _as_routed(carried)
        folded = TaskPass(self.application, url, only, self._columns(), active, added)
        fold = partial(_folding, application=self.application, ends=dict(cut.ends))
        return folded.rows(spark, fold, self.schema)

    def carried(self, staged: DataFrame, before: DataFrame | None, positions: Positions, cut: Cut) -> DataFrame:
        """Return what the next version goes on from, of all tasks: every open row, to be written whole."""
        name = f.when(f.col("kind") == TASK_KIND, f.lit(self.version)).otherwise(f.col("name"))
        made = staged.filter("open").withColumn("name", name)
        if before is None or not positions:
            return made
        return made.unionAll(before.select(*made.columns).filter(~f.col("task").isin(self.active(positions, cut))))

    def _begin_of(
        self, number: int, known: Position | None, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return from where on a task's records are read: of its inputs and its journal in its partition, its outputs in all."""
        service, partition = self.routes.task(number)
        emitted = {contract_of(event).topic.name for event in service.emits}
        found = {} if known else {place: 0 for place in places if place[0] in emitted}
        position = known or Position(0, {}, {})
        for place, offset in position.outputs.items():
            topic, _, index = place.rpartition("/")
            found[topic, int(index)] = offset
        own = {topic.name: position.inputs.get(topic.name, 0) for topic in service.inputs}
        for topic, offset in {**own, service.journal.name: position.next_entry}.items():
            found[topic, partition] = min(offset, found.get((topic, partition), offset))
        return found

    def _columns(self) -> list[str]:
        """Return the columns of `RECORD`, without those that no `evolve` can see."""
        choreography = self.application.choreography
        wanted = {"traceparent", "sequence"} if any(d.evolve_wants_meta for d in choreography.deciders) else set[str]()
        if any(contract_of(event).external is not None for event in choreography.events):
            wanted |= {"headers"}
        return [name for name in RECORD.names if name not in {"traceparent", "sequence", "headers"} - wanted]


def _position(packed: bytes) -> Position:
    next_entry, _, inputs, outputs = from_json(packed)
    return Position(next_entry, inputs, outputs)


def _as_routed(carried: DataFrame) -> DataFrame:
    """Return carried rows as rows of `ROUTED`: before all others, a task's position first."""
    of_record = {
        "topic": f.lit(""),
        "partition": f.lit(0),
        "offset": f.when(f.col("kind") == TASK_KIND, 0).otherwise(1).cast("long"),
        "at_ms": f.lit(0).cast("long"),
        "value": f.col("carried"),
        "type": f.col("kind"),
        "source": f.col("name"),
        "task": f.col("task"),
    }
    return carried.filter(f.col("carried").isNotNull()).select(
        *(of_record.get(each.name, f.lit(None)).cast(each.dataType).alias(each.name) for each in ROUTED.fields)
    )


def _folding(
    opened: EventLog, application: Application, ends: Mapping[TopicPartition, int]
) -> Callable[[TaskOfPass], Visitor]:
    """Return what makes the visitors of a worker's tasks."""
    return partial(TaskRows, opened, StagedRows(opened.choreography), application.story_field, ends)
