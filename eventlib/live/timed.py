"""Rows that end: windows, sessions and joins, all by the events' recorded_at.

No clock on the wall is asked. What an app has seen of each partition of its inputs is its time: an event is *late* when
its recorded_at is more than `grace` before the newest that came earlier from the same partition. A late event is
counted (`late`), and changes nothing else. A row goes when every partition has passed its end by `retention`; one that
says nothing any more holds the rows back, so that catching up at any speed, in any order, ends with the same rows.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from heapq import heappop, heappush

from pydantic_core import from_json

from eventlib.live.events import Origin
from eventlib.live.rows import OWN, SEPARATOR, Row, Rows, partition_now
from eventlib.live.store import LiveTable
from eventlib.values import from_ms

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
        return self.grace // _MS

    @property
    def retention_ms(self) -> int:
        """How long rows stay after their end."""
        return self.retention // _MS


_MS = timedelta(milliseconds=1)


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
                return _late_in(value)
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


class Windows(Timed):
    """Tumbling windows, or hopping ones when `step` is shorter than `size`: a row for each group and window.

    A window has its start and not its end; both are whole steps since 1970.
    """

    def __init__(self, name: str, table: LiveTable, keeping: Keeping, size: timedelta, step: timedelta) -> None:
        super().__init__(name, table, keeping)
        self._size_ms = size // _MS
        self._step_ms = step // _MS

    def starts(self, at_ms: int) -> range:
        """Return the starts of the windows that a time is in (ms)."""
        newest = at_ms - at_ms % self._step_ms
        oldest = newest - (self._size_ms - 1 - at_ms % self._step_ms) // self._step_ms * self._step_ms
        return range(oldest, newest + 1, self._step_ms)

    def add(self, group: str, origin: Origin, change: Callable[[Row], Row]) -> list[tuple[int, Row]]:
        """Take an event into its windows, and return those with their starts; none when it is late."""
        starts = self.starts(origin.at_ms)

        def apply() -> None:
            for start in starts:
                self.fold_until(f"{group}{SEPARATOR}{start}", origin, change)

        if not self.take(origin, apply):
            return []
        rows = [(start, self.get(f"{group}{SEPARATOR}{start}")) for start in starts]
        return [(start, row) for start, row in rows if row is not None]

    def ends_of(self, key: str, row: Row) -> Iterable[int]:
        """See `Timed`."""
        del row
        return (int(key.rpartition(SEPARATOR)[2]) + self._size_ms,)

    def shown(self, key: str, row: Row) -> Row:
        """See `Rows`."""
        *group, start = key.split(SEPARATOR)
        begins = int(start)
        times = {"from": from_ms(begins).isoformat(), "until": from_ms(begins + self._size_ms).isoformat()}
        return {"key": group, **times, **row}


class Sessions(Timed):
    """Sessions: what a group does without a pause of `gap` or more belongs together. A row for each group.

    An event that comes between two of them, in time, makes them one.
    """

    def __init__(self, name: str, table: LiveTable, keeping: Keeping, gap: timedelta) -> None:
        super().__init__(name, table, keeping)
        self._gap_ms = gap // _MS

    def add(self, group: str, origin: Origin, amounts: Row) -> bool:
        """Take an event with what is to be summed up over its session; False when it is late."""
        return self.take(origin, lambda: self._fold(group, origin, amounts))

    def _fold(self, group: str, origin: Origin, amounts: Row) -> None:
        self.fold_until(group, origin, lambda row: {"sessions": self._merged(row, origin.at_ms, amounts)})

    def _merged(self, row: Row, at_ms: int, amounts: Row) -> list[Row]:
        one = {"from_ms": at_ms, "to_ms": at_ms, "events": 1, **amounts}
        apart = list[Row]()
        for each in row.get("sessions", ()):
            if at_ms - self._gap_ms < each["to_ms"] and each["from_ms"] < at_ms + self._gap_ms:
                one = _together(one, each)
            else:
                apart.append(each)
        return sorted([*apart, one], key=_begins)

    def ends_of(self, key: str, row: Row) -> Iterable[int]:
        """See `Timed`."""
        del key
        return [each["to_ms"] + self._gap_ms for each in row.get("sessions", ())]

    def without(self, row: Row, until_ms: int) -> Row:
        """See `Timed`."""
        left = [each for each in row["sessions"] if each["to_ms"] + self._gap_ms > until_ms]
        return {"sessions": left} if left else {}


class Joined(Timed):
    """Rows that wait for their other half, and the sums over those that have it.

    `ends` tells when a row is done with, None as long as it is not. `complete` tells, of a row with both halves, which
    group it belongs to and what is to be summed up there; None as long as one is missing. A row is summed up once,
    whichever half comes last.
    """

    def __init__(
        self,
        name: str,
        table: LiveTable,
        keeping: Keeping,
        ends: Callable[[Row], int | None],
        complete: Callable[[Row], tuple[str, Row] | None],
    ) -> None:
        super().__init__(name, table, keeping)
        self._end = ends
        self._complete = complete

    def add(self, key: str, origin: Origin, change: Callable[[Row], Row]) -> Row | None:
        """Take an event into its row, and return that; None when it is late, or the row has gone since."""

        def apply() -> None:
            self.fold_until(key, origin, lambda row: self._summed(key, change(row)))

        return self.get(key) if self.take(origin, apply) else None

    def _summed(self, key: str, row: Row) -> Row:
        """Add a row that has become complete to the sums of its partition.

        These are written before the row is, and name it: if only they came through, it is not added again.
        """
        if row.get("summed") or (found := self._complete(row)) is None:
            return row
        group, amounts = found
        sums = f"{SUMS}{group}"
        _, before = self._stored(sums)
        if before.get("last") != key:
            self._put(sums, {}, {**added(before, amounts), "last": key})
        return {**row, "summed": True}

    def ends_of(self, key: str, row: Row) -> Iterable[int]:
        """See `Timed`."""
        del key
        end = self._end(row) if row else None
        return () if end is None else (end,)


class Sums(Rows):
    """What a join has summed up: each partition has its part, and an answer adds them up."""

    in_parts = True

    def here(self, partition: int, prefix: str = "") -> Iterator[tuple[str, Row]]:
        """See `Rows`."""
        for key, value in self.table.store.items_of(partition, f"{SUMS}{prefix}".encode()):
            row = from_json(value)["row"]
            del row["last"]
            yield key.decode().removeprefix(SUMS), row


SUMS = f"{OWN}sum{SEPARATOR}"


def added(row: Row, amounts: Row) -> Row:
    """Return a row with amounts added; of those named `slowest_…`, the greatest."""
    return {**row, **{name: _sum(name, row.get(name, 0), amount) for name, amount in amounts.items()}}


def _sum(name: str, one: int, other: int) -> int:
    return max(one, other) if name.startswith("slowest_") else one + other


def _together(one: Row, other: Row) -> Row:
    summed = {name: one[name] + other[name] for name in one.keys() - {"from_ms", "to_ms"}}
    ends = {"from_ms": min(one["from_ms"], other["from_ms"]), "to_ms": max(one["to_ms"], other["to_ms"])}
    return {**ends, **summed}


def _begins(session: Row) -> int:
    begin: int = session["from_ms"]
    return begin


def _late_in(value: bytes) -> int:
    late: int = from_json(value)["row"]["late"]
    return late
