"""A process's cached state of an SQLite log, and the log's options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from eventlib.log.base import TopicPartition
from eventlib.log.checksum import partition_seed
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms

OFFSET_BITS = 40
"""A record's position is its partition's number above these bits, and its offset in them."""

MILLISECOND = timedelta(milliseconds=1)
MOST_RECORDS = 1_024
_MOST_BYTES = 1 << 20
"""The bound for one partition; a log has some dozens that are read while they are written."""


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """Timing and size options of an SQLite log.

    An owner beats every `heartbeat_s` and is declared dead when it was not seen for `lease_s`; while its event loop is
    blocked, a thread beats for it, for at most `max_blocked_s`. Other processes' appends
    are polled for every `watch_active_s`, falling back to every `watch_idle_s` when idle. A partition is compacted
    after it has grown by at least `compact_floor` records. An append that would let the file grow over `max_bytes`
    fails with LogFull (default: the disk's size). So many records of one transaction and partition are written as
    a batch, from `batch_from` on. `clock` returns milliseconds.
    """

    busy_s: float = 30.0
    heartbeat_s: float = 1.0
    lease_s: float = 3.0
    max_blocked_s: float = 60.0
    watch_active_s: float = 0.002
    watch_idle_s: float = 0.03
    compact_floor: int = 10_000
    batch_from: int = 8
    max_bytes: int | None = None
    clock: Callable[[], int] = now_ms


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
        self._bytes += sum([len(record.value) for record in records if record.value is not None])
        if len(self._records) <= MOST_RECORDS and self._bytes <= _MOST_BYTES:
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
        records = self._records
        for index in range(self._with_offset, min(stop, kept)):
            place = self._first + index
            if records[index].offset == -1:
                records[index].offset = place
            elif records[index].offset != place:
                records[index] = records[index].placed(place)
        self._with_offset = max(self._with_offset, min(stop, kept))
        return records[start:stop]


@dataclass(slots=True, eq=False)
class PartitionState:
    """The cached state of a partition, as of the last transaction."""

    topic: Topic
    partition: int
    number: int
    end: int = 0
    newest_at: int = 0
    clean_to: int = 0
    kept: int = 0
    kept_bytes: int = 0
    dense_from: int = 0
    """From here on each offset has its record: nothing was compacted or retained."""
    checked_from: int = 0
    """From here on each record has a checksum: earlier ones were written by an older release."""
    digest: int = 0
    damage: str = ""
    """Why its cached state cannot be trusted; empty when it can."""
    max_event_bytes: int = 0
    recent: RecentRecords | None = None
    """Its records in memory; None while no reader in this process is at its end."""
    base: int = field(init=False)
    """The position of its offset 0."""
    seed: int = field(init=False)
    """The identity that its records' checksums include."""

    def __post_init__(self) -> None:
        self.base = self.number << OFFSET_BITS
        self.seed = partition_seed(self.topic.name, self.partition)

    @property
    def moving(self) -> tuple[int, ...]:
        """Its changing columns, in the order of the file's columns."""
        return (
            self.end,
            self.newest_at,
            self.clean_to,
            self.kept,
            self.kept_bytes,
            self.dense_from,
            self.checked_from,
            self.digest,
        )

    @property
    def range(self) -> dict[str, int]:
        """Its first position, and the next partition's, as a query's parameters."""
        return {"base": self.base, "top": self.number + 1 << OFFSET_BITS}

    def read_recent(self, offset: int, limit: int) -> list[Record] | None:
        """Return records from memory, in the form of `Log.read`; None when the file must be read."""
        if self.recent is None or self.damage or offset < self.dense_from:
            return None
        return self.recent.read(offset, limit, self.end)

    def appended(self, offset: int, records: Sequence[Record]) -> None:
        """Keep what this process has committed from an offset on, while it has a reader here."""
        if self.recent is not None and not self.recent.extend(offset, records):
            self.recent = None

    def learn(self, row: Sequence[int]) -> None:
        """Load the partition's row."""
        self.end, self.newest_at, self.clean_to, self.kept, self.kept_bytes, *rest = row
        self.dense_from, self.checked_from, self.digest = rest


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """The owner of a service's partition, as in the file; `owner` is empty for none."""

    epoch: int
    owner: str
    seen_at: int


@dataclass(slots=True)
class Listeners:
    """Callbacks for changes of the file."""

    appended: list[Callable[[set[TopicPartition]], None]] = field(default_factory=list)
    owners_changed: list[Callable[[], None]] = field(default_factory=list)


def topic_of(row: tuple[Any, ...]) -> Topic:
    """Return a topic from its row."""
    name, partitions, partitioner, retention_ms, retention_bytes, compacted, latest, max_event_bytes = row
    return Topic(
        name,
        partitions=partitions,
        partitioner=partitioner,
        retention=None if retention_ms is None else timedelta(milliseconds=retention_ms),
        retention_bytes=retention_bytes,
        compacted=bool(compacted),
        latest=bool(latest),
        max_event_bytes=max_event_bytes,
    )


def row_of(topic: Topic) -> tuple[Any, ...]:
    """Return a topic's row."""
    return (
        topic.name,
        topic.partitions,
        topic.partitioner,
        None if topic.retention is None else topic.retention // MILLISECOND,
        topic.retention_bytes,
        int(topic.compacted),
        int(topic.latest),
        topic.max_event_bytes,
    )
