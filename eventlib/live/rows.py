"""Tables of rows, which take each event once however often it comes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from faust.streams import current_event
from pydantic_core import from_json, to_json

from eventlib.json_form import json_of
from eventlib.live.events import Origin
from eventlib.live.store import LiveTable

Row = dict[str, Any]
"""What a view shows of a key: plain JSON."""

SEPARATOR = "\x1f"  # between the parts of a row's key
OWN = "\x00"  # what keys begin with that are no rows


def with_known(row: Row, **known: object) -> Row:
    """Return a row with some fields more, or known otherwise."""
    return {**row, **known}


class Folded(NamedTuple):
    """A row with an event in it, and whether the event is new there."""

    row: Row
    is_new: bool


class Rows:
    """A table of rows: `rows.fold(key, origin, change)` takes an event into one.

    Guarantee: beside each row stands the last offset that it has from each partition of its inputs, in one record of
    the changelog; so an event that comes again changes nothing, whatever was lost in a crash.
    """

    in_parts = False
    """Whether each partition has a part of every row."""

    def __init__(self, name: str, table: LiveTable) -> None:
        self.name = name
        self.table = table

    def fold(self, key: str, origin: Origin, change: Callable[[Row], Row]) -> Folded:
        """Take an event into a row: `change` gets the row as it is, empty at first, and returns the new one."""
        seen, row = self._stored(key)
        if origin.offset <= seen.get(origin.partition, -1):
            return Folded(row, is_new=False)
        row = change(row)
        self._put(key, {**seen, origin.partition: origin.offset}, row)
        return Folded(row, is_new=True)

    def get(self, key: str) -> Row | None:
        """Return a row of the partition whose event is being handled."""
        row = self._stored(key)[1]
        return row or None

    def here(self, partition: int, prefix: str = "") -> Iterator[tuple[str, Row]]:
        """Yield the rows of a partition that this worker has, by key; for who asks from outside."""
        for key, value in self.table.store.items_of(partition, prefix.encode()):
            if not key.startswith(OWN.encode()):
                yield key.decode(), from_json(value)["row"]

    def shown(self, key: str, row: Row) -> Row:
        """Return a row as it is shown, with the parts of its key."""
        return {"key": key.split(SEPARATOR), **row}

    def _stored(self, key: str) -> tuple[Mapping[str, int], Row]:
        value = self.table.get(key.encode())
        if value is None:
            return {}, {}
        found = from_json(value)
        return found["seen"], found["row"]

    def _put(self, key: str, seen: Mapping[str, int], row: Row) -> None:
        self.table[key.encode()] = to_json({"seen": seen, "row": json_of(row)})

    def _remove(self, key: str) -> None:
        del self.table[key.encode()]


def partition_now() -> int:
    """Return the partition whose event is being handled."""
    event = current_event()
    if event is None:
        raise RuntimeError("only an agent has a partition")
    partition: int = event.message.partition
    return partition
