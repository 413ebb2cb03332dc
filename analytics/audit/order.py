"""The times by which what tasks have done is ordered, column by column, where an operator has reset clocks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from analytics.audit.application import Application
from analytics.audit.packs import Pack, Packing
from analytics.audit.routing import Clocks, Routes
from analytics.hashing import numbers_of, partitions_of

NO_TASK = -1
"""In the place of the number of a task that has emitted a record."""

Ints = NDArray[np.int64]


class Owners:
    """Finds the tasks that have emitted records, or journalled them."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._journals = {service.journal.name: i for i, service in enumerate(routes.services)}
        self._emitting = {
            f"{service.emits_as}/{decider.name}": i
            for i, service in enumerate(routes.services)
            for decider in service.deciders
        }

    def emitting(self, batch: pa.RecordBatch) -> Ints:
        """Return the numbers of the tasks that have emitted records."""
        services = numbers_of(batch["source"], lambda source: self._emitting.get(source, NO_TASK))
        found = np.full(len(services), NO_TASK)
        for i in np.unique(services[services != NO_TASK]).tolist():
            rows, service = np.flatnonzero(services == i), self._routes.services[i]
            partitions = partitions_of(service.inputs[0], batch["subject"].take(pa.array(rows)))
            found[rows] = self._routes.number(service, partitions)
        return found

    def order_ms(self, batch: pa.RecordBatch, times: Ints, emitting: Ints, clocks: Clocks) -> tuple[Ints, Ints]:
        """Return the times by which records are ordered: for who has emitted or journalled one, and for who consumes it.

        A record from outside is ordered for who consumes it.
        """
        partitions, owners = batch["partition"].to_numpy(), emitting.copy()
        journals = numbers_of(batch["topic"], lambda topic: self._journals.get(topic, NO_TASK))
        for i in np.unique(journals[journals != NO_TASK]).tolist():
            rows = journals == i
            owners[rows] = self._routes.number(self._routes.services[i], partitions[rows])
        own, consumed = times.copy(), times.copy()
        for number, clock in clocks.items():
            for first_ms, last_ms, reset_ms in clock.resets:
                is_ahead = (times >= first_ms) & (times <= last_ms)
                for found, concerned in ((own, owners == number), (consumed, partitions == Routes.partition(number))):
                    rows = is_ahead & concerned
                    found[rows] = np.minimum(found[rows], reset_ms - 1)
        return np.where(owners == NO_TASK, consumed, own), consumed


@dataclass(frozen=True)
class InOrder:
    """Packs records with the times by which those of all tasks are ordered together, in the place of their own.

    `clocks` are those of `Routes.shared_clocks`; without any, times stay as they are.
    """

    packing: Packing
    application: Application
    clocks: Clocks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        """Yield the packs of batches of records."""
        return self.packing(_timed(batches, self.application, self.clocks, "at_ms") if self.clocks else batches)


def in_order(records: DataFrame, application: Application, clocks: Clocks, column: str = "recorded_at") -> DataFrame:
    """Return records with the times by which those of all tasks are ordered together in a column: `InOrder`, for rows."""
    timed = partial(_timed, application=application, clocks=clocks, column=column)
    return records.mapInArrow(timed, records.schema) if clocks else records


def _timed(
    batches: Iterable[pa.RecordBatch], application: Application, clocks: Clocks, column: str
) -> Iterator[pa.RecordBatch]:
    owners = Owners(Routes(application.choreography))
    for batch in batches:
        at, kind = batch.schema.get_field_index(column), batch.schema.field(column).type
        is_time = pa.types.is_timestamp(kind)
        given = (
            batch[column].cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()) if is_time else batch[column]
        )
        own, _ = owners.order_ms(batch, given.to_numpy(), owners.emitting(batch), clocks)
        timed = pa.array(own).cast(pa.timestamp("ms", kind.tz)) if is_time else pa.array(own)
        yield batch.set_column(at, batch.schema.field(column), timed.cast(kind))
