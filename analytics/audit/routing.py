"""Which tasks consume a record, and which one has emitted it: by Spark's own plan, except for the hash of a key."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from operator import or_
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.rows import RECORD, record_columns
from analytics.log import log
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.service import Service
from eventlib.model.topic import PARTITIONERS, Topic
from eventlib.queries.task_clock import readable_positions
from eventlib.replay.push_scanner import CONSUMED, EMITTED
from eventlib.runtime.records import ClockReset, Positions, TaskClock
from eventlib.values import now_ms

JOURNAL = 4
"""The role of a task's journal, beside HEARD and SAID, which are bits."""

ROUTED = t.StructType([
    *RECORD.fields,
    t.StructField("task", t.IntegerType()),
    t.StructField("role", t.IntegerType()),
])  # fmt: skip
"""A record for a task."""

Number = TypeVar("Number", int, Column, NDArray[np.int64])

Clocks = Mapping[int, TaskClock]
"""The clocks of tasks that an operator has reset, by the task's number."""

NONE_RESET: Clocks = {}
_MOST_PARTITIONS = 1 << 16
_TIME_BITS = 42  # milliseconds until the year 2109
_CANDIDATES = 64  # candidates for each partition, so that each gets one
_EMITTING, _TYPE = "_emitting", "_type"


@dataclass(frozen=True)
class Routes:
    """A choreography's tasks by number, of services whose history is kept: those that read no compacted topic."""

    choreography: Choreography

    @cached_property
    def services(self) -> Sequence[Service]:
        """The services."""
        found = [service for service in self.choreography.services if service.inputs]
        return [service for service in found if not any(topic.compacted for topic in service.inputs)]

    @property
    def numbers(self) -> Sequence[int]:
        """The tasks' numbers."""
        return [self.number(service, n) for service in self.services for n in range(service.partitions)]

    def task(self, number: int) -> tuple[Service, int]:
        """Return a task's service and partition, by its number."""
        index, partition = divmod(number, _MOST_PARTITIONS)
        return self.services[index], partition

    def number(self, service: Service, partition: Number) -> Number:
        """Return a task's number, by its service and partition."""
        return partition + self.services.index(service) * _MOST_PARTITIONS

    @staticmethod
    def partition(number: Number) -> Number:
        """Return a task's partition, by its number."""
        return number % _MOST_PARTITIONS

    def roles(self, topic: str, partition: int, kind: str | None, emitting: int | None) -> Iterator[tuple[int, int]]:
        """Yield the numbers of the tasks that a record concerns, with its roles there; `emitting` has emitted it."""
        if topic in self._journals:
            yield self.number(self._journals[topic], partition), JOURNAL
            return
        consuming = {
            self.number(each, partition) for each in self._consuming.get(self._external.get(topic, kind or ""), ())
        }
        for number in consuming:
            yield number, CONSUMED | EMITTED if number == emitting else CONSUMED
        if emitting is not None and emitting not in consuming:
            yield emitting, EMITTED

    @cached_property
    def _journals(self) -> Mapping[str, Service]:
        return {service.journal.name: service for service in self.services}

    @cached_property
    def _external(self) -> Mapping[str, str]:
        contracts = map(contract_of, self.choreography.events)
        return {contract.topic.name: contract.type for contract in contracts if contract.external is not None}

    @cached_property
    def _consuming(self) -> Mapping[str, Sequence[Service]]:
        """The services that handle a type."""
        found = dict[str, list[Service]]()
        for service in self.services:
            for event in service.handles:
                found.setdefault(contract_of(event).type, []).append(service)
        return found

    def past(self, spark: SparkSession, url: str) -> DataFrame:
        """Return all inputs, outputs and journal entries of tasks, as rows of `ROUTED`."""
        emitted = self.of_records(log(spark, url, topics=self.topics).select(*record_columns()))
        done = self.of_journals(log(spark, url, topics=self.journals).select(*record_columns()))
        return emitted.unionAll(done.select(*ROUTED.names))

    def in_order(self, routed: DataFrame, clocks: Clocks = NONE_RESET) -> DataFrame:
        """Return rows of `ROUTED` task by task in time order: at one time by offset, journal entries after outputs."""
        order_ms = self.order_ms(clocks)
        last = f.greatest("role", f.lit(CONSUMED | EMITTED))
        by_task = routed.repartition(len(self.numbers), self._place())
        first = f.col("task").cast("long")
        if len(self.services) * _MOST_PARTITIONS <= 1 << 64 - _TIME_BITS:
            # Spark compares the first number without reading the rows: with the time in it, that is mostly enough.
            first = f.shiftleft(first, _TIME_BITS) + order_ms
        return by_task.sortWithinPartitions(first, "task", order_ms, "at_ms", last, "offset")

    def order_ms(self, clocks: Clocks) -> Column:
        """Return the time by which rows of `ROUTED` are ordered: see `TaskClock.order_ms`."""
        found = f.col("at_ms")
        for number, clock in clocks.items():
            for first_ms, last_ms, reset_ms in clock.resets:
                is_ahead = (f.col("task") == number) & f.col("at_ms").between(first_ms, last_ms)
                found = f.when(is_ahead, f.lit(reset_ms - 1)).otherwise(found)
        return found

    async def clocks(self, opened: EventLog) -> Clocks:
        """Return the clocks of the tasks that an operator has reset."""
        return {number: at.clock for number, at in (await self._positions(opened)).items() if at.clock.resets}

    async def shared_clocks(self, opened: EventLog) -> Clocks:
        """Return clocks that order what all tasks have done together; none where no operator has reset any.

        What one wrong clock has set ahead, in whatever tasks, counts as done before the first of them was reset; a task that
        is ahead still counts as reset now.
        """
        known, now = await self._positions(opened), now_ms()
        clocks = {number: at.clock for number, at in known.items() if at.clock.resets}
        for number, at in known.items() if clocks else ():
            if at.at_ms > now:
                clocks[number] = at.clock.with_reset(now + 1, at.at_ms, now)
        resets = [reset for clock in clocks.values() for reset in clock.resets]
        return {
            number: TaskClock(tuple(_with_first(r, resets) for r in each.resets)) for number, each in clocks.items()
        }

    async def _positions(self, opened: EventLog) -> Mapping[int, Positions]:
        found = await readable_positions(opened, map(self.task, self.numbers))
        services = {service.name: service for service in self.services}
        return {self.number(services[name], partition): at for (name, partition), at in found.items()}

    def _place(self) -> Column:
        """Return a number for each task that gives it a partition of its own in a shuffle.

        Spark's hash of plain numbers puts four into one partition, none into others: too much to sort at once.
        """
        numbers = self.numbers
        labels = {_hash_in_spark(n) % len(numbers): n for n in range(len(numbers) * _CANDIDATES)}
        return constant_of("task", {number: labels[place] for place, number in enumerate(numbers)})

    @property
    def topics(self) -> list[str]:
        """The topics of the tasks' inputs and outputs."""
        return list(dict.fromkeys(contract_of(event).topic.name for event in self.choreography.events))

    @property
    def journals(self) -> list[str]:
        """The topics of the tasks' journals."""
        return [service.journal.name for service in self.services]

    def of_journals(self, journals: DataFrame) -> DataFrame:
        """Return the journals' records with the columns `task` and `role`."""
        tasks = {service.journal.name: self.number(service, f.col("partition")) for service in self.services}
        return journals.withColumns({"task": by_value("topic", tasks), "role": f.lit(JOURNAL)})

    def of_records(self, records: DataFrame) -> DataFrame:
        """Return each record once for each task that consumes or has emitted it, with `task` and `role`."""
        emitted_by = {
            f"{service.emits_as}/{decider.name}": service for service in self.services for decider in service.deciders
        }
        topics = {source: service.inputs[0] for source, service in emitted_by.items()}
        home = partition_of(topics)
        emitting = {source: self.number(service, f.col(_EMITTING)) for source, service in emitted_by.items()}
        external = {topic: f.lit(kind) for topic, kind in self._external.items()}
        located = records.withColumns({
            _EMITTING: home("source", "subject"),
            _TYPE: f.coalesce(by_value("topic", external), f.col("type")),
        }).withColumn(_EMITTING, by_value("source", emitting))  # fmt: skip
        routes = self._roles(())
        for consumers, types in self._consumers().items():
            routes = f.when(f.col(_TYPE).isin(*types), self._roles(consumers)).otherwise(routes)
        return located.select(*records.columns, f.inline(routes))

    def _consumers(self) -> Mapping[tuple[Service, ...], Sequence[str]]:
        """Return the types that the same services handle."""
        found = dict[tuple[Service, ...], list[str]]()
        for kind, services in self._consuming.items():
            found.setdefault(tuple(services), []).append(kind)
        return found

    def _roles(self, consumers: Sequence[Service]) -> Column:
        """Return the tasks of a record that these services handle, each with its roles."""
        emitting = f.col(_EMITTING)
        consuming = [self.number(service, f.col("partition")) for service in consumers]
        consumed = [
            _route(task, f.when(task == emitting, CONSUMED | EMITTED).otherwise(CONSUMED)) for task in consuming
        ]
        is_consumed_at_home = reduce(or_, (task == emitting for task in consuming), f.lit(False))
        elsewhere = f.array(*consumed, _route(emitting, f.lit(EMITTED)))
        nowhere = f.array().cast("array<struct<task: int, role: int>>")
        return f.when(emitting.isNotNull() & ~is_consumed_at_home, elsewhere).otherwise(
            f.array(*consumed) if consumed else nowhere
        )


def _with_first(reset: ClockReset, resets: Sequence[ClockReset]) -> ClockReset:
    """Return a reset as if it was done with the first that took back any of the same times."""
    same = (each for each in resets if each.first_ms <= reset.last_ms and reset.first_ms <= each.last_ms)
    return reset._replace(at_ms=min(each.at_ms for each in same))


def _route(task: Column, role: Column) -> Column:
    return f.struct(task.alias("task"), role.alias("role"))


def by_value(column: str, values: Mapping[str, Column]) -> Column:
    """Return the value for a column's content; NULL when there is none."""
    found: Column = f.lit(None)
    for name, value in values.items():
        found = f.when(f.col(column) == name, value).otherwise(found)
    return found


def constant_of(column: str, values: Mapping[Any, Any]) -> Column:
    """Return the constant for a column's content; NULL when there is none."""
    return f.create_map(*(f.lit(each) for pair in values.items() for each in pair))[f.col(column)]


def _hash_in_spark(number: int) -> int:
    """Return Spark's own hash of an `int`, which a shuffle goes by: to ask for it takes a job.

    Source: MurmurHash3_x86_32, with the seed 42 of Spark's `hash`.
    """
    mixed = 42 ^ _rotated(number * 0xCC9E2D51, 15) * 0x1B873593 & _WORD
    mixed = (_rotated(mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4  # the bytes of an int
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _WORD
    mixed ^= mixed >> 16
    return mixed - (_WORD + 1) if mixed >> 31 else mixed


_WORD = (1 << 32) - 1


def _rotated(word: int, bits: int) -> int:
    word &= _WORD
    return word << bits & _WORD | word >> 32 - bits


_KEYS = 1 << 16
"""How many keys' partitions a worker caches: those that a log has at about one time."""


def partition_of(topics: Mapping[str, Topic]) -> Callable[[str, str], Column]:
    """Return a function from two columns, a topic's name and a key, to the key's partition; NULL for other topics."""
    return cast("Callable[[str, str], Column]", f.udf(partial(_partition_of, topics), "int", useArrow=True))


def _partition_of(topics: Mapping[str, Topic], name: str | None, key: str | None) -> int | None:
    topic = topics.get(name or "")
    return None if topic is None else _hashed(topic.partitioner, topic.partitions, key or "")


@lru_cache(_KEYS)
def _hashed(partitioner: str, partitions: int, key: str) -> int:
    # The same as `Topic.partition_of`: a topic as cache key would be hashed, field by field, for each row.
    return PARTITIONERS[partitioner](key.encode(), partitions)
