"""The log of a simulation: a log in memory whose appends can be held up, refused and cut off, and which can be forked."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from enum import Enum
from types import coroutine
from typing import TypeVar

from eventlib.errors import LogUnavailable
from eventlib.log.memory import MemoryLog, Partition
from eventlib.log.port import Claim, Reader, Record, TopicPartition

T = TypeVar("T")


class Point(Enum):
    """Where a task stands still for a moment, so that anything may happen before it goes on."""

    BEFORE_APPEND = "before its append"
    AFTER_APPEND = "after its append"


@coroutine
def reached(point: Point) -> Generator[Point, None, None]:
    """Stand still at a point until whoever drives this goes on."""
    yield point


class SimulatedLog(MemoryLog):
    """A log in memory; `appended` hears of every append."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock=clock)
        self.appended: Callable[[Sequence[Record], Sequence[int]], None] = _nobody
        self.refuses = False

    def forked(self, clock: Callable[[], int]) -> "SimulatedLog":
        """Return a log of its own with the same records."""
        made = SimulatedLog(clock)
        made._topics = self._topics
        made._partitions = _Forked(self._partitions)
        made._owners = self._owners.forked()
        return made

    def take_over(self, service: str, partition: int) -> Claim:
        """Give a task to a new owner, as when the old one was not heard of for too long."""
        return self._owners.claim(service, partition)

    async def seize(self, service: str, partition: int) -> Claim:
        """See `Log.seize`; nobody is a member here, so nobody takes it back."""
        return self.take_over(service, partition)

    async def append(self, records: Sequence[Record], claim: Claim | None = None) -> list[int]:
        """See `Log.append`; a task stands still before and after it."""
        if claim is not None:
            await reached(Point.BEFORE_APPEND)
            if self.refuses:
                raise LogUnavailable("the log is away")
        offsets = await super().append(records, claim)
        self.appended(records, offsets)
        if claim is not None:
            await reached(Point.AFTER_APPEND)
        return offsets

    def reader(self, positions: Mapping[TopicPartition, int]) -> "SimulatedReader":
        """See `Log.reader`; this one reads what the schedule wants read."""
        return SimulatedReader(self, positions)

    def records(self, place: TopicPartition, offset: int, limit: int) -> list[Record]:
        """Return what `read` does, to those who do not wait."""
        found = self._partitions[place]
        first = found.index(offset)
        return found.records[first : first + limit]


class _Forked(dict[TopicPartition, Partition]):
    """Partitions that are copied when somebody looks at them: a schedule is short, and touches few."""

    def __init__(self, others: Mapping[TopicPartition, Partition]) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, place: TopicPartition) -> Partition:
        made = self[place] = self._others[place].forked()
        return made


class SimulatedReader(Reader):
    """A reader that takes from the partition that it is told to."""

    def __init__(self, log: SimulatedLog, positions: Mapping[TopicPartition, int]) -> None:
        self._log = log
        self._positions = dict(positions)

    def take(self, place: TopicPartition, limit: int) -> list[Record]:
        """Return the next records of one partition, and go past them."""
        records = self._log.records(place, self._positions[place], limit)
        self._positions[place] = records[-1].offset + 1 if len(records) == limit else self._log.known_end(place)
        return records

    def next_of(self, place: TopicPartition) -> Record:
        """Return the next record of a partition that has one, and stay before it."""
        return self._log.records(place, self._positions[place], 1)[0]

    def is_behind(self, place: TopicPartition) -> bool:
        """Tell whether there is anything to take from a partition."""
        return self._positions[place] < self._log.known_end(place)

    async def poll(self, limit: int, timeout_s: float | None = None) -> list[Record]:
        """See `Reader.poll`: the schedule takes, and nobody waits."""
        raise NotImplementedError

    def wake(self) -> None:
        """See `Reader.wake`: nobody waits."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `Reader.seek`."""
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        """See `Reader.position`."""
        return self._positions[partition]

    async def ends(self) -> Mapping[TopicPartition, int]:
        """See `Reader.ends`."""
        return {place: self._log.known_end(place) for place in self._positions}

    async def close(self) -> None:
        """See `Reader.close`."""


def _nobody(_records: Sequence[Record], _offsets: Sequence[int]) -> None:
    return


def driven(work: Awaitable[T]) -> T:
    """Run a coroutine that waits for nothing to its end, and return what it returns."""
    steps = work.__await__()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
