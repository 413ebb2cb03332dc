"""Rows that end: windows, sessions and joins, all by the events' recorded_at.

No clock on the wall is asked. What an app has seen of each partition of its inputs is its time: an event is *late* when
its recorded_at is more than `grace` before the newest that came earlier from the same partition. A late event is
counted (`late`), and changes nothing else. A row goes when every partition has passed its end by `retention`; one that
says nothing any more holds the rows back, so that catching up at any speed, in any order, ends with the same rows.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from heapq import heappop, heappush

from pydantic_core import from_json

from eventlib.live.events import Origin
from eventlib.live.rows import OWN, Row, Rows, partition_now
from eventlib.live.store import LiveTable

_CLOCK = f"{OWN}clock"


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long a timed table waits for late events and keeps windows, and how many partitions it reads."""

    grace: timedelta
    retention: timedelta
    sources: int

    @property
    def grace_ms(self) -> int:
        """How much older than the newest an event may be."""
        return self.grace // MS

    @property
    def retention_ms(self) -> int:
        """How long rows stay after their end."""
        return self.retention // MS


MS = timedelta(milliseconds=1)


class Timed(Rows):
    """Rows of which each ends at some time."""

    def __init__(self, name: str, table: LiveTable, keeping: Keeping) -> None:
        super().__init__(name, table)
        self._keeping = keeping
        self._ends = dict[tuple[int, int], list[tuple[int, str]]]()

    @abstractmethod
    def ends_of(self, key: str, row: Row) -> Iterable[int]:
        """Return when a row, or parts of it, end (ms); nothing for one that has no end yet."""

    def without(self, row: Row, until_ms: int) -> Row:
        """Return a row without what has ended by a time; empty when that is all of it."""
        del row, until_ms
        return {}

    def take(self, origin: Origin, apply: Callable[[], None]) -> bool:
        """Take an event: unless it is late or was taken before, `apply` folds it into rows. Tell whether it counts.

        Guarantee: the rows, then the clock, are written to one partition of one changelog, and a store is always a
        prefix of that: what the clock has seen is in the rows.
        """
        seen, clock = self._stored(_CLOCK)
        if origin.offset <= seen.get(origin.partition, -1):
            return True
        newest = clock.get("newest", {})
        before = newest.get(origin.partition, origin.at_ms)
        late = origin.at_ms < before - self._keeping.grace_ms
        if not late:
            apply()
        newest = {**newest, origin.partition: max(before, origin.at_ms)}
        self._expire(self._horizon(newest))
        row = {"newest": newest, "late": clock.get("late", 0) + late}
        self._put(_CLOCK, {**seen, origin.partition: origin.offset}, row)
        return not late

    def late(self, partition: int) -> int:
        """Return how many events came too late for a partition that this worker has."""
        for key, value in self.table.store.items_of(partition, _CLOCK.encode()):
            if key == _CLOCK.encode():
                late: int = from_json(value)["row"]["late"]
                return late
        return 0

    def fold_until(self, key: str, origin: Origin, change: Callable[[Row], Row]) -> Row:
        """Take an event into a row, as `fold` does, and note when that ends."""
        folded = self.fold(key, origin, change)
        ends = self._index()
        for end in self.ends_of(key, folded.row):
            heappush(ends, (end, key))
        return folded.row

    def _horizon(self, newest: dict[str, int]) -> int:
        if len(newest) < self._keeping.sources:
            return -1
        return min(newest.values()) - self._keeping.retention_ms

    def _expire(self, horizon: int) -> None:
        ends = self._index()
        while ends and ends[0][0] <= horizon:
            _, key = heappop(ends)
            seen, row = self._stored(key)
            left = self.without(row, horizon) if any(end <= horizon for end in self.ends_of(key, row)) else row
            if not left and row:
                self._remove(key)
            elif left != row:
                self._put(key, seen, left)

    def _index(self) -> list[tuple[int, str]]:
        """Return a heap of when the rows of the partition end, made from them when it was just given to us."""
        partition, epoch = partition_now(), self.table.store.epoch
        found = self._ends.get((partition, epoch))
        if found is None:
            self._ends = {each: ends for each, ends in self._ends.items() if each[1] == epoch}
            rows = self.here(partition)
            found = sorted((end, key) for key, row in rows for end in self.ends_of(key, row))
            self._ends[partition, epoch] = found
        return found
