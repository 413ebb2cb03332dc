"""What tasks have consumed, emitted and journalled, packed for those who replay them: routed in workers, column by column.

Tasks of the same partitions are a share, and go together: what one has emitted, others of them mostly consume.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analytics.audit.application import Application
from analytics.audit.packs import Pack, packed, unpacked
from analytics.audit.routing import Clocks, Routes
from analytics.audit.rows import records_of, whole
from analytics.hashing import numbers_of, partitions_of
from eventlib.model.event import contract_of
from eventlib.model.record import Record

_ORDER = "order_ms"
NO_TASK = -1
"""In the place of the number of a task that has emitted a record."""

_AT_ONCE = 20_000
"""How many rows are sorted at once, at least: memory has no more of them, beside those of packs that overlap in time."""

_ROWS_OF_A_PACK = 1_000
"""At most: each partition of each topic has a pack that overlaps with those of the others."""

_MADE_AT_ONCE = 1_000

_Ints = NDArray[np.int64]
Past = tuple[Record, int, int]
"""A record, its time (ms), and the number of the task that has emitted it."""


@dataclass(frozen=True)
class SharePacking:
    """Packs records for the tasks that they concern, in `shares` groups by partition; packs go by their oldest record.

    `clocks` are those of tasks that an operator has reset: what they did before is ordered before that.
    """

    application: Application
    shares: int
    clocks: Clocks = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Pack]:
        """Yield the packs of batches of records."""
        router = _Router(Routes(self.application.choreography))
        for batch in batches:
            partitions = batch["partition"].to_numpy()
            emitting = router.emitting(batch)
            is_used, is_emitted = router.is_used(batch), emitting != NO_TASK
            by = Routes.partition(emitting) % self.shares
            routed = batch.append_column("emitting", pa.array(emitting))
            if self.clocks:
                routed = routed.append_column(_ORDER, pa.array(router.order_ms(batch, emitting, self.clocks)))
            for share in range(self.shares):
                rows = np.flatnonzero((is_used & (partitions % self.shares == share)) | (is_emitted & (by == share)))
                found = routed if len(rows) == routed.num_rows else routed.take(pa.array(rows))
                for first in range(0, len(rows), _ROWS_OF_A_PACK):
                    few = found.slice(first, _ROWS_OF_A_PACK)
                    yield (share, int(_times(few).min())), packed(few)


class _Router:
    """Finds what tasks need a record for: `Routes.of_records`, for Arrow."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        contracts = [contract_of(event) for event in routes.choreography.events]
        handled = {contract_of(event).type for service in routes.services for event in service.handles}
        self._handled = {each.type for each in contracts if each.type in handled and each.external is None}
        external = {each.topic.name for each in contracts if each.type in handled and each.external is not None}
        self._topics = {*routes.journals, *external}
        self._emitting = {
            f"{service.emits_as}/{decider.name}": i
            for i, service in enumerate(routes.services)
            for decider in service.deciders
        }

    def is_used(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which records a task consumes, or has journalled."""
        by_type = numbers_of(batch["type"], lambda kind: kind in self._handled, missing=False)
        by_topic = numbers_of(batch["topic"], lambda topic: topic in self._topics, missing=False)
        return (by_type | by_topic).astype(bool)

    def emitting(self, batch: pa.RecordBatch) -> _Ints:
        """Return the numbers of the tasks that have emitted records."""
        services = numbers_of(batch["source"], lambda source: self._emitting.get(source, NO_TASK))
        found = np.full(len(services), NO_TASK)
        for i in np.unique(services[services != NO_TASK]).tolist():
            rows, service = np.flatnonzero(services == i), self._routes.services[i]
            partitions = partitions_of(service.inputs[0], batch["subject"].take(pa.array(rows)))
            found[rows] = self._routes.number(service, partitions)
        return found

    def order_ms(self, batch: pa.RecordBatch, emitting: _Ints, clocks: Clocks) -> _Ints:
        """Return the times by which records are ordered: that of who emitted or journalled one counts before a consumer's."""
        times, partitions = batch["at_ms"].to_numpy(), batch["partition"].to_numpy()
        found: _Ints = times.copy()
        is_others = ~np.isin(emitting, [*clocks])
        for number, clock in clocks.items():
            concerned = (emitting == number) | (is_others & (partitions == Routes.partition(number)))
            for first_ms, last_ms, reset_ms in clock.resets:
                is_ahead = concerned & (times >= first_ms) & (times <= last_ms)
                found[is_ahead] = np.minimum(found[is_ahead], reset_ms - 1)
        return found


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


def _times(rows: pa.RecordBatch) -> _Ints:
    """Return the times by which rows are ordered."""
    found: _Ints = rows[_ORDER if _ORDER in rows.schema.names else "at_ms"].to_numpy()
    return found


def _until(end_ms: int, packs: Sequence[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Return the rows of packs before a time, and the others; no row is copied."""
    ends = [int(np.searchsorted(_times(rows), end_ms)) for rows in packs]
    before = [rows.slice(0, end) for rows, end in zip(packs, ends, strict=True) if end]
    return before, [rows.slice(end) for rows, end in zip(packs, ends, strict=True) if end < rows.num_rows]


def _is_sorted(rows: pa.RecordBatch) -> bool:
    return bool((np.diff(_times(rows)) >= 0).all())


def _sorted(rows: pa.RecordBatch) -> _Ints:
    return np.lexsort((rows["offset"].to_numpy(), rows["at_ms"].to_numpy(), _times(rows)))


def _records(packs: Sequence[pa.RecordBatch]) -> Iterator[Any]:
    """Yield records in order: a few are made at a time, so that those who use them find them in the processor's caches."""
    if packs:
        rows = pa.concat_batches(packs)
        in_order = _sorted(rows)
        rows = rows.select([name for name in rows.schema.names if name != _ORDER])
        for first in range(0, len(in_order), _MADE_AT_ONCE):
            yield from records_of([whole(rows.take(pa.array(in_order[first : first + _MADE_AT_ONCE])))])
