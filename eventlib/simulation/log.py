"""The simulated log: a log in memory whose appends can be delayed, refused and interrupted, and which can be forked."""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from enum import Enum
from types import coroutine
from typing import TypeVar

from eventlib.errors import DamagedRecord, LogUnavailable
from eventlib.log.base import Claim, Reader, TopicPartition
from eventlib.log.memory import MemoryLog, Partition
from eventlib.model.record import Record

T = TypeVar("T")


class Point(Enum):
    """Where a task pauses, so that anything may happen before it continues."""

    BEFORE_APPEND = "before its append"
    AFTER_APPEND = "after its append"


@coroutine
def reached(point: Point) -> Generator[Point, None, None]:
    """Pause at a point until the caller continues."""
    yield point


class SimulatedLog(MemoryLog):
    """A log in memory; `appended` is called with every append.

    `corruptions` has the records that a faulty disk returns differently, and how. Readers do not see the newest records of a
    `stale` partition yet; `starts` has where partitions start of which retention has dropped records.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock=clock)
        self.corruptions: dict[tuple[str, int, int], Callable[[Record], Record]] = {}
        self.stale = Counter[TopicPartition]()
        self.starts: dict[TopicPartition, int] = {}
        self.appended: Callable[[Sequence[Record], Sequence[int]], None] = _nobody
        self.refuses = False

    def forked(self, clock: Callable[[], int]) -> "SimulatedLog":
        """Return an independent log with the same records."""
        made = SimulatedLog(clock)
        made._topics = self._topics.copy()
        made._ids = self._ids.copy()
        made._partitions = _Forked(self._partitions)
        made._owners = self._owners.forked()
        return made

    def take_over(self, service: str, partition: int) -> Claim:
        """Give a task to a new owner, as when the old one sent no heartbeat for too long."""
        return self._owners.claim(service, partition)

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`; without group members, no process takes it back."""
        return self.take_over(service, partition)

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`; a task pauses before and after it."""
        if claim is not None:
            await reached(Point.BEFORE_APPEND)
            if self.refuses:
                raise LogUnavailable("the log is down")
        offsets = await super().append(records, claim)
        self.appended(records, offsets)
        if claim is not None:
            await reached(Point.AFTER_APPEND)
        return offsets

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        """See `Log.reader`; the schedule decides what this one reads."""
        return SimulatedReader(self, positions)

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """See `Log.read`."""
        return self.records((topic, partition), offset, limit)

    def records(self, topic_partition: TopicPartition, offset: int, limit: int) -> list[Record]:
        """Return what `read` does, without waiting. Raises: DamagedRecord."""
        written = self.written(topic_partition, offset, limit)
        return self._from_disk(written) if self.corruptions else written

    def written(self, topic_partition: TopicPartition, offset: int, limit: int) -> list[Record]:
        """Return records as they were written, whatever the disk returns."""
        partition = self._partitions[topic_partition]
        first = partition.index(offset)
        return partition.records[first : first + limit]

    def drop(self, topic_partition: TopicPartition, until: int) -> list[Record]:
        """Let retention drop a partition's records before an offset, and return them."""
        partition = self._partitions[topic_partition]
        dropped = partition.records[: partition.index(until)]
        del partition.records[: len(dropped)]
        self.starts[topic_partition] = until
        return dropped

    def visible_end(self, topic_partition: TopicPartition) -> int:
        """Return the end of a partition that readers can see."""
        return self.known_end(topic_partition) - self.stale[topic_partition]

    def _from_disk(self, written: Sequence[Record]) -> list[Record]:
        found = list[Record]()
        for record in written:
            corrupt = self.corruptions.get(record.location)
            try:
                found.append(record if corrupt is None else corrupt(record))
            except DamagedRecord:
                if found:
                    return found
                raise
        return found


class _Forked(dict[TopicPartition, Partition]):
    """Partitions that are copied on first use: a schedule is short, and touches few."""

    def __init__(self, others: Mapping[TopicPartition, Partition]) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, topic_partition: TopicPartition) -> Partition:
        made = self[topic_partition] = self._others[topic_partition].forked()
        return made


class SimulatedReader(Reader):
    """A reader whose next partition is chosen by the caller."""

    def __init__(self, log: SimulatedLog, positions: Mapping[TopicPartition, int]) -> None:
        self._log = log
        self._positions = dict(positions)
        self._lost: dict[TopicPartition, tuple[int, int]] = {}

    def take(self, topic_partition: TopicPartition, limit: int) -> list[Record]:
        """Return the next records of one partition, and move past them. Raises: DamagedRecord, without moving."""
        end, at = self._log.visible_end(topic_partition), self._positions[topic_partition]
        if at < (start := self._log.starts.get(topic_partition, 0)):
            self._lost[topic_partition] = at, start
            self._positions[topic_partition] = start
        records = [
            each
            for each in self._log.records(topic_partition, self._positions[topic_partition], limit)
            if each.offset < end
        ]
        is_whole = len(records) < limit and not any(key[:2] == topic_partition for key in self._log.corruptions)
        self._positions[topic_partition] = end if is_whole or not records else records[-1].offset + 1
        return records

    def take_lost(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """See `Reader.take_lost`."""
        lost, self._lost = self._lost, {}
        return lost

    def next_of(self, topic_partition: TopicPartition) -> Record | None:
        """Return the next record of a partition, as it was written, without moving; None where retention has dropped it."""
        found = self._log.written(topic_partition, self._positions[topic_partition], 1)
        return found[0] if found else None

    def is_behind(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition has records left to read; one that is not read has none."""
        at = self._positions.get(topic_partition)
        return at is not None and at < self._log.visible_end(topic_partition)

    async def poll(self, limit: int, timeout_s: float | None = None) -> list[Record]:
        """See `Reader.poll`: the schedule takes records, so this is not called."""
        raise NotImplementedError

    def wake(self) -> None:
        """See `Reader.wake`: no caller waits."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `Reader.seek`."""
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        """See `Reader.position`."""
        return self._positions[partition]

    async def ends(self) -> Mapping[TopicPartition, int]:
        """See `Reader.ends`."""
        return {topic_partition: self._log.known_end(topic_partition) for topic_partition in self._positions}

    async def close(self) -> None:
        """See `Reader.close`."""


def _nobody(_records: Sequence[Record], _offsets: Sequence[int]) -> None:
    return


def driven(work: Awaitable[T]) -> T:
    """Run a coroutine that never waits to its end, and return its result."""
    steps = work.__await__()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
