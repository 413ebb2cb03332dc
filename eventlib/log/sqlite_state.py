"""What a process knows of an SQLite log, and how the log behaves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from eventlib.log.port import TopicPartition
from eventlib.log.sqlite_schema import OFFSET_BITS
from eventlib.times import now_ms
from eventlib.topic import Topic

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """How an SQLite log behaves in time; the defaults are meant for everybody.

    An owner is seen every `heartbeat_s` and given up when it was not seen for `lease_s`. Other processes' appends are
    looked for every `watch_active_s`, falling back to every `watch_idle_s` when nothing comes. `compact_floor` is how
    many records a partition has to grow by before it is compacted. An append that would let the file grow over
    `max_bytes` fails with LogFull (default: as far as the disk goes). `clock` gives milliseconds.
    """

    busy_s: float = 30.0
    heartbeat_s: float = 1.0
    lease_s: float = 3.0
    watch_active_s: float = 0.002
    watch_idle_s: float = 0.03
    compact_floor: int = 10_000
    max_bytes: int | None = None
    clock: Callable[[], int] = now_ms


@dataclass(slots=True, eq=False)
class PartitionState:
    """What is known of a partition, as of the last transaction."""

    topic: Topic
    partition: int
    number: int
    end: int = 0
    newest_at: int = 0
    clean_to: int = 0
    kept: int = 0
    kept_bytes: int = 0
    max_event_bytes: int = 0
    base: int = field(init=False)
    """The position of its offset 0."""

    def __post_init__(self) -> None:
        self.base = self.number << OFFSET_BITS

    @property
    def range(self) -> dict[str, int]:
        """Its first position, and the next partition's, as a query's values."""
        return {"base": self.base, "top": self.number + 1 << OFFSET_BITS}

    def learn(self, row: Sequence[int]) -> None:
        """Take over what the file says."""
        self.end, self.newest_at, self.clean_to, self.kept, self.kept_bytes = row


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """Who owns a service's partition, as the file says it; `owner` is empty for nobody."""

    epoch: int
    owner: str
    seen_at: int


@dataclass(slots=True)
class Listeners:
    """Who wants to know when the file has changed."""

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
