"""Which tasks consume a record, and which one has emitted it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from analytics.audit.rows import RECORD
from eventlib.eventlog import EventLog
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.queries.task_clock import readable_positions
from eventlib.replay.push_scanner import CONSUMED, EMITTED
from eventlib.runtime.records import ClockReset, Positions, TaskClock
from eventlib.values import now_ms

JOURNAL, ADDED = 4, 8
"""The roles of a task's journal, and of a row that is on no log, beside CONSUMED and EMITTED, which are bits."""

ROUTED = t.StructType([*RECORD.fields, t.StructField("task", t.IntegerType())])
"""A record for a task."""

Number = TypeVar("Number", int, Column, NDArray[np.int64])

Clocks = Mapping[int, TaskClock]
"""The clocks of tasks that an operator has reset, by the task's number."""

NONE_RESET: Clocks = {}
_MOST_PARTITIONS = 1 << 16


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

    @property
    def topics(self) -> list[str]:
        """The topics of the tasks' inputs and outputs."""
        return list(dict.fromkeys(contract_of(event).topic.name for event in self.choreography.events))

    @property
    def journals(self) -> list[str]:
        """The topics of the tasks' journals."""
        return [service.journal.name for service in self.services]


def _with_first(reset: ClockReset, resets: Sequence[ClockReset]) -> ClockReset:
    """Return a reset as if it was done with the first that took back any of the same times."""
    same = (each for each in resets if each.first_ms <= reset.last_ms and reset.first_ms <= each.last_ms)
    return reset._replace(at_ms=min(each.at_ms for each in same))


def by_value(column: str, values: Mapping[str, Column]) -> Column:
    """Return the value for a column's content; NULL when there is none."""
    found: Column = f.lit(None)
    for name, value in values.items():
        found = f.when(f.col(column) == name, value).otherwise(found)
    return found


def constant_of(column: str, values: Mapping[Any, Any]) -> Column:
    """Return the constant for a column's content; NULL when there is none."""
    return f.create_map(*(f.lit(each) for pair in values.items() for each in pair))[f.col(column)]


def partition_of(topics: Mapping[str, Topic]) -> Callable[[str, str], Column]:
    """Return a function from two columns, a topic's name and a key, to the key's partition; NULL for other topics."""
    return cast("Callable[[str, str], Column]", f.udf(partial(_partition_of, topics), "int", useArrow=True))


def _partition_of(topics: Mapping[str, Topic], name: str | None, key: str | None) -> int | None:
    topic = topics.get(name or "")
    return None if topic is None else topic.partition_of((key or "").encode())
