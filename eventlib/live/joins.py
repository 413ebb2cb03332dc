"""Joins: rows that wait for their other half, and the sums over those that have it; see `timed`."""

from collections.abc import Callable, Iterable, Iterator

from pydantic_core import from_json

from eventlib.live.events import Origin
from eventlib.live.rows import OWN, SEPARATOR, Row, Rows
from eventlib.live.store import LiveTable
from eventlib.live.timed import Keeping, Timed


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
