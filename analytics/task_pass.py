"""One pass over a log: what each task has consumed, emitted and journalled, time after time, for a visitor of it.

Workers route records column by column, in packs, and play the tasks of the same partitions side by side, since what one of
them has emitted, others mostly consume. Memory has the records of packs that overlap in time, and not the log.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from analytics.asking import from_anywhere
from analytics.audit.application import Application
from analytics.audit.order import NO_TASK, Ints, Owners
from analytics.audit.packs import (
    PACK,
    Pack,
    gathered,
    packed,
    packed_rows,
    packs,
    packs_of,
    sorted_on_disk,
    unpacked,
)
from analytics.audit.routing import ADDED, JOURNAL, Clocks, Routes
from analytics.audit.rows import RECORD, records_of, whole
from analytics.hashing import numbers_of
from analytics.selection import Only
from eventlib.eventlog import EventLog
from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.replay.compare import Compare
from eventlib.replay.comparison import Describer, OutputQuery
from eventlib.replay.context import ReplayContext
from eventlib.replay.partition_buffer import Buffered
from eventlib.replay.push_scanner import EMITTED, PushScanner
from eventlib.replay.report import Tally
from eventlib.replay.spilling_cache import IN_MEMORY, Spill, state_cache
from eventlib.runtime.records import JournalEntry, TaskClock
from eventlib.runtime.runtime import collect_garbage_seldom
from eventlib.values import to_ms

_ORDER = "order_ms"
ONLY_EMITTED = 1 << 40
"""Added to the number of who has emitted a record whose consumers have it already."""

_ADDED_FOR = 1 << 41
"""Added to the number of the task that a row was added for."""

_AT_ONCE = 20_000
"""How many rows are sorted at once, at least: memory has no more of them, beside those of packs that overlap in time."""

_ROWS_OF_A_PACK = 1_000
"""At most: each partition of each topic has a pack that overlaps with those of the others."""

_MADE_AT_ONCE = 1_000
_PLAYED_AT_ONCE = 4_096  # records, between which a visitor's rows go on
_OBJECTS = 5_000_000

_TIME = itemgetter(1)  # of a record of the past

Past = tuple[Record, int, int]
"""A record, its time (ms), and the number of the task that has emitted it."""


@dataclass
class Moment:
    """What concerns a task at one time (ms): inputs and outputs with their roles, journal entries, and added rows."""

    at_ms: int = 0
    given: list[tuple[Buffered, int]] = field(default_factory=list)
    journalled: list[Record] = field(default_factory=list)
    added: list[Record] = field(default_factory=list)


class TaskOfPass(NamedTuple):
    """A task, its number and clock, and how many entries each of its deciders may have in memory."""

    service: Service
    partition: int
    number: int
    clock: TaskClock
    in_memory: int


class Visitor(ABC):
    """Plays one task. Its rows are what it makes, as batches of the pass's schema."""

    @abstractmethod
    async def take(self, moment: Moment) -> None:
        """Take what concerns the task at the next time."""

    def rows(self) -> Iterable[pa.RecordBatch]:
        """Return rows that are ready, and forget them."""
        return ()

    @abstractmethod
    def finish(self) -> Iterable[pa.RecordBatch]:
        """Return all other rows, after the last time."""

    @abstractmethod
    def close(self) -> None:
        """Remove what is in files."""


class Replaying(Visitor):
    """Replays a task by today's functions, until something on the log is in the way.

    `outputs` are those that are compared, of which the first so many differences are kept.
    """

    def __init__(self, opened: EventLog, version: str, outputs: OutputQuery, most: int, task: TaskOfPass) -> None:
        self._service, self._partition = task.service, task.partition
        self._window = PushScanner(opened, task.service, task.partition)
        self._spill = Spill()
        self._entries = {each.name: state_cache(each, self._spill, task.in_memory) for each in task.service.deciders}
        describer = Describer(opened.choreography)
        self._context = ReplayContext(opened, self._window, self._entries, Tally(most), outputs, describer, version)
        self._again = Compare(task.service, task.partition, self._context)
        self._is_prepared = self._is_broken = False

    async def take(self, moment: Moment) -> None:
        """See `Visitor.take`."""
        if self._is_broken:
            return
        try:
            if not self._is_prepared:
                await self._spill.prepare([*self._service.deciders])
                self._is_prepared = True
            await self._window.push(moment.given)
            await self._replay(moment, [self._decoded(record) for record in moment.journalled])
        except Exception as error:  # noqa: BLE001  whatever is on the log, it is told
            self._is_broken = True
            self._told(error)

    def close(self) -> None:
        """See `Visitor.close`."""
        self._spill.close()

    def _decoded(self, record: Record) -> JournalEntry:
        return self._context.log.codec.decode(JournalEntry, record.value or b"")

    @abstractmethod
    async def _replay(self, moment: Moment, entries: Sequence[JournalEntry]) -> None:
        """Replay what the task has journalled at a time."""

    @abstractmethod
    def _told(self, error: Exception) -> None:
        """Take note of what is in the way, or raise it."""


Begin = Callable[[EventLog], Callable[[TaskOfPass], Visitor]]
"""Called in a worker, with the log to decode records with, for what makes the visitors of its tasks."""


@dataclass(frozen=True)
class TaskPass:
    """A pass over what `only` selects of the topics of an application's tasks, and `added` rows, of `ROUTED`.

    Clocks that an operator has reset order it: what a task did before that is ordered before that, and left out if it is not
    before `until`. `tasks` are the numbers of those that are played, if not all are.
    """

    application: Application
    url: str
    only: Only = field(default_factory=Only)
    columns: Sequence[str] = tuple(RECORD.names)
    tasks: frozenset[int] | None = None
    added: DataFrame | None = None

    def rows(self, spark: SparkSession, begin: Begin, schema: t.StructType) -> DataFrame:
        """Return the rows that visitors make. Raises: as `analytics.log` does."""
        routes = Routes(self.application.choreography)
        partitions = max((service.partitions for service in routes.services), default=1)
        count = min(partitions, spark.sparkContext.defaultParallelism)
        with self.application.running(self.url) as (opened, run):
            clocks = run(routes.clocks(opened))
        only: Only = {**self.only, "topics": [*routes.topics, *routes.journals]}
        until, before_ms = only.get("until"), None
        if clocks and until is not None:  # by times that were taken back nothing is cut
            only["until"], before_ms = None, to_ms(until)
        packing = SharePacking(self.application, count, clocks, before_ms)
        past = packs(spark, self.url, self.application, only, packing, count, columns=self.columns)
        if self.added is not None:
            adding = partial(packed_rows, packing=_AddedPacking(count, clocks, self.columns), groups=count)
            past = past.unionAll(self.added.mapInArrow(adding, PACK))
        play = partial(
            _played,
            application=self.application,
            url=from_anywhere(self.url),
            count=count,
            clocks=clocks,
            tasks=self.tasks,
            begin=begin,
        )
        return gathered(past, count).mapInArrow(play, schema)


@cache
def make_ready() -> None:
    """Prepare one of Spark's workers, which serves many tasks: once."""
    collect_garbage_seldom(growth=_OBJECTS)


def _played(  # noqa: PLR0913, PLR0917  what a worker needs
    rows: Iterable[pa.RecordBatch],
    application: Application,
    url: str,
    count: int,
    clocks: Clocks,
    tasks: frozenset[int] | None,
    begin: Begin,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a worker's shares; no log is opened without records."""
    for number, past in past_of_shares(sorted_on_disk(packs_of(rows))):
        make_ready()
        with application.running(url) as (opened, run):
            share = _Share(Routes(application.choreography), (number, count), clocks, tasks, begin(opened))
            moments = groupby(past, key=_TIME)
            try:
                while run(share.play(moments)):
                    yield from share.rows()
                yield from share.finish()
            finally:
                share.close()


class _Task:
    """A task's visitor, and what it gets next."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.moment = Moment()


class _Share:
    """The tasks of some partitions, played side by side in time order."""

    def __init__(
        self,
        routes: Routes,
        share: tuple[int, int],
        clocks: Clocks,
        tasks: frozenset[int] | None,
        visitor: Callable[[TaskOfPass], Visitor],
    ) -> None:
        self._routes = routes
        self._share, self._count = share
        self._clocks, self._wanted = clocks, tasks
        self._visitor = visitor
        self._tasks: dict[int, _Task] = {}
        self._known: dict[tuple[str, int, str | None, int], list[tuple[_Task, int]]] = {}
        of_all = sum(len(service.deciders) * service.partitions for service in routes.services)
        self._in_memory = max(1, IN_MEMORY // 2 * self._count // of_all)

    async def play(self, moments: Iterator[tuple[int, Iterable[Past]]]) -> bool:
        """Play some of what is next, and return whether that was not all."""
        known, played = self._known, 0
        for at_ms, moment in moments:
            concerned = dict[_Task, None]()
            for record, _, emitting in moment:
                played += 1
                by = record.topic, record.partition, record.type, emitting
                item = Buffered(record)
                for task, role in known.get(by) or self._route(*by):
                    if role == JOURNAL:
                        task.moment.journalled.append(record)
                    elif role == ADDED:
                        task.moment.added.append(record)
                    else:
                        task.moment.given.append((item, role))
                    concerned[task] = None
            for task in concerned:
                now, task.moment = task.moment, Moment()
                now.at_ms = at_ms
                await task.visitor.take(now)
            if played >= _PLAYED_AT_ONCE:
                return True
        return False

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are ready."""
        for task in self._tasks.values():
            yield from task.visitor.rows()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield all other rows."""
        for task in self._tasks.values():
            yield from task.visitor.finish()

    def close(self) -> None:
        """Remove what is in files."""
        for task in self._tasks.values():
            task.visitor.close()

    def _route(self, topic: str, partition: int, kind: str | None, emitting: int) -> "list[tuple[_Task, int]]":
        roles: Iterable[tuple[int, int]]
        if emitting >= _ADDED_FOR:
            roles = [(emitting - _ADDED_FOR, ADDED)]
        elif emitting >= ONLY_EMITTED:
            roles = [(emitting - ONLY_EMITTED, EMITTED)]
        else:
            roles = self._routes.roles(topic, partition, kind, None if emitting == NO_TASK else emitting)
        found = [(self._task(number), role) for number, role in dict(roles).items() if self._is_mine(number)]
        self._known[topic, partition, kind, emitting] = found
        return found

    def _is_mine(self, number: int) -> bool:
        is_wanted = self._wanted is None or number in self._wanted
        return is_wanted and self._routes.partition(number) % self._count == self._share

    def _task(self, number: int) -> "_Task":
        if number not in self._tasks:
            clock = self._clocks.get(number, TaskClock())
            task = TaskOfPass(*self._routes.task(number), number, clock, self._in_memory)
            self._tasks[number] = _Task(self._visitor(task))
        return self._tasks[number]


@dataclass(frozen=True)
class SharePacking:
    """Packs records for the tasks that they concern, in `shares` groups by partition; packs go by their oldest record.

    `clocks` are those of tasks that an operator has reset: what they did before is ordered before that. Records that are
    ordered at or after `before_ms` are left out.
    """

    application: Application
    shares: int
    clocks: Clocks = field(default_factory=dict)
    before_ms: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        """Yield the packs of batches of records."""
        routes = Routes(self.application.choreography)
        consumed, owners = _Consumed(routes), Owners(routes)
        for batch in batches:
            emitting = owners.emitting(batch)
            routed, is_used = batch.append_column("emitting", pa.array(emitting)), consumed.is_used(batch)
            if self.clocks:
                times = owners.order_ms(batch, batch["at_ms"].to_numpy(), emitting, self.clocks)
                routed, is_used = _in_time(routed, is_used, emitting, *times)
                emitting = routed["emitting"].to_numpy()
            if self.before_ms is not None:
                is_before = _times(routed) < self.before_ms
                routed, is_used, emitting = routed.filter(pa.array(is_before)), is_used[is_before], emitting[is_before]
            partitions, is_emitted = routed["partition"].to_numpy(), emitting != NO_TASK
            by = Routes.partition(emitting) % self.shares
            for share in range(self.shares):
                rows = np.flatnonzero((is_used & (partitions % self.shares == share)) | (is_emitted & (by == share)))
                yield from _few_each(share, routed if len(rows) == routed.num_rows else routed.take(pa.array(rows)))


def _few_each(share: int, rows: pa.RecordBatch) -> Iterator[Pack]:
    for first in range(0, rows.num_rows, _ROWS_OF_A_PACK):
        few = rows.slice(first, _ROWS_OF_A_PACK)
        yield (share, int(_times(few).min())), packed(few)


@dataclass(frozen=True)
class _AddedPacking:
    """Packs added rows, which name their tasks, as `SharePacking` packs records."""

    shares: int
    clocks: Clocks
    columns: Sequence[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        for batch in batches:
            tasks, times = batch["task"].to_numpy().astype(np.int64), batch["at_ms"].to_numpy().copy()
            rows = batch.select([*self.columns]).append_column("emitting", pa.array(tasks + _ADDED_FOR))
            if self.clocks:
                for number, clock in self.clocks.items():
                    for first_ms, last_ms, reset_ms in clock.resets:
                        is_ahead = (tasks == number) & (times >= first_ms) & (times <= last_ms)
                        times[is_ahead] = np.minimum(times[is_ahead], reset_ms - 1)
                rows = rows.append_column(_ORDER, pa.array(times))
            for share in range(self.shares):
                yield from _few_each(share, rows.filter(pa.array(Routes.partition(tasks) % self.shares == share)))


class _Consumed:
    """Finds the records that tasks consume, or have journalled: `Routes.of_records`, for Arrow."""

    def __init__(self, routes: Routes) -> None:
        contracts = [contract_of(event) for event in routes.choreography.events]
        handled = {contract_of(event).type for service in routes.services for event in service.handles}
        self._handled = {each.type for each in contracts if each.type in handled and each.external is None}
        external = {each.topic.name for each in contracts if each.type in handled and each.external is not None}
        self._topics = {*routes.journals, *external}

    def is_used(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which records a task consumes, or has journalled."""
        by_type = numbers_of(batch["type"], lambda kind: kind in self._handled, missing=False)
        by_topic = numbers_of(batch["topic"], lambda topic: topic in self._topics, missing=False)
        return (by_type | by_topic).astype(bool)


def _in_time(
    routed: pa.RecordBatch, is_used: NDArray[np.bool_], emitting: Ints, own: Ints, consumed: Ints
) -> tuple[pa.RecordBatch, NDArray[np.bool_]]:
    """Return rows with the times by which they are ordered, and which are used.

    A row that somebody consumes before the time by which it was emitted, by their clocks, is there twice.
    """
    is_early = (emitting != NO_TASK) & is_used & (consumed < own)
    early = routed.filter(pa.array(is_early)).set_column(
        routed.num_columns - 1, "emitting", pa.array(np.full(is_early.sum(), NO_TASK))
    )
    late = routed.set_column(
        routed.num_columns - 1, "emitting", pa.array(np.where(is_early, emitting + ONLY_EMITTED, emitting))
    )
    timed = [rows.append_column(_ORDER, pa.array(at)) for rows, at in ((late, own), (early, consumed[is_early]))]
    return pa.concat_batches(timed), np.concatenate([is_used & ~is_early, is_used[is_early]])


def past_of_shares(packs: Iterable[Pack]) -> Iterator[tuple[int, Iterator[Past]]]:
    """Yield shares with their records, from packs in order: by time, and at one time by offset."""
    for share, of_share in groupby(packs, key=lambda pack: pack[0][0]):
        yield share, _in_order(of_share)


def _in_order(packs: Iterable[Pack]) -> Iterator[Past]:
    waiting, count, most = list[pa.RecordBatch](), 0, _AT_ONCE
    for (_, oldest), data in packs:
        if count >= most:
            ready, waiting = _until(oldest, waiting)  # no pack has older ones any more
            yield from _records(ready)
            count = sum(rows.num_rows for rows in waiting)
            most = count + _AT_ONCE
        rows = unpacked(data)
        waiting.append(rows if _is_sorted(rows) else rows.take(pa.array(_sorted(rows))))
        count += rows.num_rows
    yield from _records(waiting)


def _times(rows: pa.RecordBatch) -> Ints:
    """Return the times by which rows are ordered."""
    found: Ints = rows[_ORDER if _ORDER in rows.schema.names else "at_ms"].to_numpy()
    return found


def _until(end_ms: int, packs: Sequence[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the rows of packs before a time, and the others; no row is copied."""
    ends = [int(np.searchsorted(_times(rows), end_ms)) for rows in packs]
    before = [rows.slice(0, end) for rows, end in zip(packs, ends, strict=True) if end]
    return before, [rows.slice(end) for rows, end in zip(packs, ends, strict=True) if end < rows.num_rows]


def _is_sorted(rows: pa.RecordBatch) -> bool:
    return bool((np.diff(_times(rows)) >= 0).all())


def _sorted(rows: pa.RecordBatch) -> Ints:
    return np.lexsort((rows["offset"].to_numpy(), rows["at_ms"].to_numpy(), _times(rows)))


def _records(packs: Sequence[pa.RecordBatch]) -> Iterator[Any]:
    """Yield records in order: a few are made at a time, so that those who use them find them in the processor's caches."""
    if packs:
        rows = pa.concat_batches(packs if _are_alike(packs) else map(_decoded, packs))
        in_order = _sorted(rows)
        rows = rows.select([name for name in rows.schema.names if name != _ORDER])
        for first in range(0, len(in_order), _MADE_AT_ONCE):
            yield from records_of([whole(rows.take(pa.array(in_order[first : first + _MADE_AT_ONCE])))])


def _are_alike(packs: Sequence[pa.RecordBatch]) -> bool:
    return all(rows.schema == packs[0].schema for rows in packs)


def _decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without dictionaries, and with keys as bytes: added ones have neither."""
    columns = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in rows.columns]
    columns = [
        each.cast(pa.binary()) if name == "key" else each for name, each in zip(rows.schema.names, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
