"""Windows and sessions: what happened in a span of time, by the events' recorded_at; see `timed`."""

from collections.abc import Callable, Iterable
from datetime import timedelta

from eventlib.live.events import Origin
from eventlib.live.rows import SEPARATOR, Row
from eventlib.live.store import LiveTable
from eventlib.live.timed import MS, Keeping, Timed
from eventlib.values import from_ms


class Windows(Timed):
    """Tumbling windows, or hopping ones when `step` is shorter than `size`: a row for each group and window.

    A window has its start and not its end; both are whole steps since 1970.
    """

    def __init__(self, name: str, table: LiveTable, keeping: Keeping, size: timedelta, step: timedelta) -> None:
        super().__init__(name, table, keeping)
        self._size_ms = size // MS
        self._step_ms = step // MS

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
        self._gap_ms = gap // MS

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
        return sorted([*apart, one], key=lambda each: each["from_ms"])

    def ends_of(self, key: str, row: Row) -> Iterable[int]:
        """See `Timed`."""
        del key
        return [each["to_ms"] + self._gap_ms for each in row.get("sessions", ())]

    def without(self, row: Row, until_ms: int) -> Row:
        """See `Timed`."""
        left = [each for each in row["sessions"] if each["to_ms"] + self._gap_ms > until_ms]
        return {"sessions": left} if left else {}


def _together(one: Row, other: Row) -> Row:
    summed = {name: one[name] + other[name] for name in one.keys() - {"from_ms", "to_ms"}}
    ends = {"from_ms": min(one["from_ms"], other["from_ms"]), "to_ms": max(one["to_ms"], other["to_ms"])}
    return {**ends, **summed}
