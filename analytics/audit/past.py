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
from analytics.audit.order import NO_TASK, Ints, Owners
from analytics.audit.packs import Pack, packed, unpacked
from analytics.audit.routing import Clocks, Routes
from analytics.audit.rows import records_of, whole
from analytics.hashing import numbers_of
from eventlib.model.event import contract_of
from eventlib.model.record import Record

_ORDER = "order_ms"
ONLY_EMITTED = 1 << 40
"""Added to the number of who has emitted a record whose consumers have it already."""

_AT_ONCE = 20_000
"""How many rows are sorted at once, at least: memory has no more of them, beside those of packs that overlap in time."""

_ROWS_OF_A_PACK = 1_000
"""At most: each partition of each topic has a pack that overlaps with those of the others."""

_MADE_AT_ONCE = 1_000

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
        routes = Routes(self.application.choreography)
        consumed, owners = _Consumed(routes), Owners(routes)
        for batch in batches:
            emitting = owners.emitting(batch)
            routed, is_used = batch.append_column("emitting", pa.array(emitting)), consumed.is_used(batch)
            if self.clocks:
                times = owners.order_ms(batch, batch["at_ms"].to_numpy(), emitting, self.clocks)
                routed, is_used = _in_time(routed, is_used, emitting, *times)
                emitting = routed["emitting"].to_numpy()
            partitions, is_emitted = routed["partition"].to_numpy(), emitting != NO_TASK
            by = Routes.partition(emitting) % self.shares
            for share in range(self.shares):
                rows = np.flatnonzero((is_used & (partitions % self.shares == share)) | (is_emitted & (by == share)))
                found = routed if len(rows) == routed.num_rows else routed.take(pa.array(rows))
                for first in range(0, len(rows), _ROWS_OF_A_PACK):
                    few = found.slice(first, _ROWS_OF_A_PACK)
                    yield (share, int(_times(few).min())), packed(few)


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
        rows = pa.concat_batches(packs)
        in_order = _sorted(rows)
        rows = rows.select([name for name in rows.schema.names if name != _ORDER])
        for first in range(0, len(in_order), _MADE_AT_ONCE):
            yield from records_of([whole(rows.take(pa.array(in_order[first : first + _MADE_AT_ONCE])))])
