"""Finds events that were gone before views have read them: where a partition goes on elsewhere than it was read to."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from faust.types import TP

_AFTER_GAP_S = 1.0  # each transaction leaves a gap in the offsets: most of them are nothing
_WHEN_IDLE_S = 5.0


class Gap(NamedTuple):
    """A partition was read up to `first`, and goes on at `to`: behind what was dropped, or before, in another topic."""

    partition: TP
    first: int
    to: int


class Followed:
    """Where each partition is to be read next. Nothing is known of one whose position the group does not have."""

    def __init__(self) -> None:
        self._next: dict[TP, int] = {}
        self._gaps = list[Gap]()
        self._looked_at = monotonic()

    def begin(self, positions: Mapping[TP, int]) -> None:
        """Begin where the group has come to."""
        self._next, self._gaps = {**positions}, []

    def took(self, fetched: Mapping[TP, Sequence[Any]]) -> None:
        """Take note of records that were read."""
        for partition, records in fetched.items():
            if records:
                first, at = records[0].offset, self._next.get(partition)
                if at is not None and at != first:
                    self._gaps.append(Gap(partition, at, first))
                self._next[partition] = records[-1].offset + 1

    async def losses(
        self, starts_of: Callable[[Sequence[TP]], Awaitable[Mapping[TP, int]]], *, is_idle: bool
    ) -> list[Gap]:
        """Return what was lost, if it is time to look; of partitions that nothing comes of only while all are idle.

        Raises: KafkaError when brokers do not say where partitions start; the next call looks again.
        """
        since_s = monotonic() - self._looked_at
        if since_s < _AFTER_GAP_S or not (self._gaps or (is_idle and since_s >= _WHEN_IDLE_S)):
            return []
        self._looked_at = monotonic()
        starts, found = await starts_of([*self._next]), list[Gap]()
        for gap in self._gaps:
            if gap.to < gap.first:
                found.append(gap)
            elif (start := starts.get(gap.partition, 0)) > gap.first:
                found.append(gap._replace(to=min(gap.to, start)))
        self._gaps = []
        if is_idle:
            for partition, at in self._next.items():
                if (start := starts.get(partition, 0)) > at:
                    found.append(Gap(partition, at, start))
                    self._next[partition] = start
        return found
