"""The newest records of a partition as this process appended them, so that its own readers need not query the file."""

from collections.abc import Sequence

from eventlib.log.base import Record

_MOST_RECORDS = 1_024
_MOST_BYTES = 1 << 20
"""The bound for one partition; a log has some dozens that are read while they are written."""


class RecentRecords:
    """One process's uninterrupted run of appends at the end of a partition.

    Guarantee: what it returns is on disk, though not read back from there. It is kept while it has a reader, and within
    bounds.
    """

    __slots__ = ("_bytes", "_first", "_is_read", "_records", "_with_offset")

    def __init__(self, end: int) -> None:
        self._begin(end)

    def _begin(self, end: int) -> None:
        self._first = end
        self._records = list[Record]()
        self._with_offset = 0  # so many of them have their offset
        self._bytes = 0
        self._is_read = True

    def extend(self, offset: int, records: Sequence[Record]) -> bool:
        """Add committed records from an offset on; False when no reader had read what was evicted for them."""
        if offset != self._first + len(self._records):  # another process has appended since
            self._begin(offset)
        self._records += records
        self._bytes += sum([len(record[5]) for record in records if record[5] is not None])
        if len(self._records) <= _MOST_RECORDS and self._bytes <= _MOST_BYTES:
            return True
        was_read = self._is_read
        self._begin(offset + len(records))
        self._is_read = False
        return was_read

    def read(self, offset: int, limit: int, end: int) -> list[Record] | None:
        """Return up to `limit` records from `offset` on, fewer at the end; None when the file must be read."""
        start, kept = offset - self._first, len(self._records)
        stop = start + limit
        if start < 0 or (stop > kept and self._first + kept != end):
            return None
        self._is_read = True
        for index in range(self._with_offset, min(stop, kept)):
            self._records[index] = self._records[index].placed(self._first + index)
        self._with_offset = max(self._with_offset, min(stop, kept))
        return self._records[start:stop]
