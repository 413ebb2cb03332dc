"""What was copied, and how it is known to be the same on both sides."""

from dataclasses import dataclass
from hashlib import blake2b

from eventlib.log.port import Record


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition, the same on both sides: how many records, the next offset, and a hash of all that it holds."""

    topic: str
    partition: int
    records: int
    end: int
    hash: str


@dataclass(frozen=True, slots=True)
class Report:
    """A copy: its partitions, and whether its source refuses further records now.

    One that was whole when its last step was broken off is not compared again: it has no partitions here.
    """

    partitions: tuple[PartitionReport, ...]
    source_retired: bool


class Digest:
    """A hash over a partition's records in order, with their offsets where these have to be the same."""

    def __init__(self, *, offsets: bool) -> None:
        self._hash = blake2b(digest_size=16)
        self._first = 2 if offsets else 3  # of Record's fields: the topic and the partition are known
        self.records = 0

    def first_difference(self, records: list[Record], others: list[Record]) -> int | None:
        """Return the index of the first record that is not the same on the other side, None when all are."""
        first = self._first
        if len(records) == len(others) and all(a[first:] == b[first:] for a, b in zip(records, others, strict=True)):
            return None
        same = (a[first:] == b[first:] for a, b in zip(records, others, strict=False))
        return next((index for index, each in enumerate(same) if not each), min(len(records), len(others)))

    def add(self, records: list[Record]) -> None:
        """Take records into it."""
        self._hash.update(repr([record[self._first :] for record in records]).encode())
        self.records += len(records)

    def hexdigest(self) -> str:
        """Return the hash of what was added."""
        return self._hash.hexdigest()
