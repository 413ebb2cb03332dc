"""The newest records of a partition as this process appended them, so that its own readers need not ask the file."""

from collections.abc import Sequence

from eventlib.log.base import Record

_MOST_RECORDS = 1_024
_MOST_BYTES = 1 << 20
"""What is kept of one partition at most; a log has some dozens of them that are read while they are written."""


class RecentRecords:
    """What one process has appended to the end of a partition without another one between.

    Guarantee: what it returns is on the disk, and was not read back from there. It is kept while it has a
    reader, and within bounds.
    """

    __slots__ = ("_bytes", "_first", "_is_read", "_placed", "_records")

    def __init__(self, end: int) -> None:
        self._begin(end)

    def _begin(self, end: int) -> None:
        self._first = end
        self._records = list[Record]()
        self._placed = 0  # so many of them have their offset
        self._bytes = 0
        self._is_read = True

    def extend(self, offset: int, records: Sequence[Record]) -> bool:
        """Take in what was committed from an offset on; False when no reader took what had to make room for it."""
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
        """Return up to `limit` records from `offset` on, fewer at the partition's end; None when the file has to say."""
        start, kept = offset - self._first, len(self._records)
        stop = start + limit
        if start < 0 or (stop > kept and self._first + kept != end):
            return None
        self._is_read = True
        for index in range(self._placed, min(stop, kept)):
            self._records[index] = self._records[index].placed(self._first + index)
        self._placed = max(self._placed, min(stop, kept))
        return self._records[start:stop]
