"""One partition in a scan of an SQLite log: its row, compared with its records."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlib.log.checksum import MASK, partition_seed
from eventlib.log.sqlite.packing import extent
from eventlib.log.sqlite.state import OFFSET_BITS


@dataclass(slots=True, eq=False)
class ScanPart:
    """A partition as its row describes it, and what the scan found of it so far."""

    row: tuple[Any, ...]
    """number, topic, partition, next_offset, newest_at, clean_to, kept, kept_bytes, dense_from, checked_from, digest"""
    lost: bool = False
    """Whether its row cannot be trusted, so that only its records describe it."""
    next: int = 0
    sum: int = 0
    unsealed: int = 0
    unsealed_to: int = 0
    newest_at: int = 0
    changed: bool = False
    missing: list[tuple[int, int]] = field(default_factory=list)
    seed: int = field(init=False)

    def __post_init__(self) -> None:
        self.seed = partition_seed(self.row[1], self.row[2])

    @property
    def base(self) -> int:
        """The position of its offset 0."""
        return int(self.row[0]) << OFFSET_BITS

    def location(self, offset: int) -> tuple[str, int, int]:
        """Return one of its offsets with topic and partition."""
        return self.row[1], self.row[2], offset

    def found(self, offset: int, row: Sequence[Any] = (None, None)) -> None:
        """Mark the record of a row at an offset as present, or its batch's records, the last of which is there."""
        offsets = extent(row[-2])[1]
        if offsets and offset - offsets + 1 == self.next:
            self.next = offset + 1
            return
        for each in range(offset - offsets + 1, offset + 1) if offsets else (offset,):
            self._found(each)

    def _found(self, offset: int) -> None:
        if offset >= self.next:
            first = max(self.next, self.row[8])
            if first < offset:
                self.missing.append((first, offset))
            self.next = offset + 1
        else:
            self.missing = [
                piece
                for first, end in self.missing
                for piece in ([(first, offset), (offset + 1, end)] if first <= offset < end else [(first, end)])
                if piece[0] < piece[1]
            ]

    def derived(self) -> tuple[Any, ...]:
        """Return its row derived from its records; upkeep recounts, and gaps before the last one are kept."""
        number, topic, partition, _, newest_at, *_ = self.row
        if not self.lost:
            return (*self.row[:3], self.next, max(newest_at, self.newest_at), *self.row[5:10], self.sum & MASK)
        dense_from = max((end for _, end in self.missing), default=0)
        return (
            number,
            topic,
            partition,
            self.next,
            self.newest_at,
            0,
            0,
            0,
            dense_from,
            self.unsealed_to,
            self.sum & MASK,
        )
