"""Consumes topics, with a position that is kept with what follows from the events: the loop of sinks and of webhooks."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from eventlib.errors import ContractError, EventlibError, LogUnavailable, OwnershipLost, RetryableError
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.log.base import Claim, Log, Reader, TopicPartition
from eventlib.log.rules import witnessed_loss
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.personal.receipt import ERASURES

AT_ONCE = 500
"""How many records are applied together at most."""

_PATIENCE_S = 1.0
_ASIDE_S = 0.5


def partitions_of(topics: Sequence[Topic]) -> int:
    """Return into how many parts the work on topics can be divided."""
    return max(topic.partitions for topic in topics)


def topic_partitions(topics: Sequence[Topic], parts: Collection[int] | None = None) -> list[TopicPartition]:
    """Return what belongs to parts of the work on topics; without them, all."""
    parts = range(partitions_of(topics)) if parts is None else sorted(parts)
    return [(each.name, part) for each in topics for part in parts if part < each.partitions]


async def dropped_before(
    port: Log, topics: Sequence[Topic], positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return how many offsets retention has dropped behind positions, where it has; compaction loses nothing."""
    keep_all = {topic.name for topic in topics if not topic.compacted}.intersection(await port.topics())
    starts = {each: await port.log_start(*each) for each in positions if each[0] in keep_all}
    return {each: start - positions[each] for each, start in starts.items() if start > positions[each]}


def names_of_dropped(dropped: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> list[str]:
    """Return what was dropped in words: topic, partition, and the first and the last offset."""
    return [
        f"{topic}/{partition}: offsets {positions[topic, partition]} to {positions[topic, partition] + count - 1}"
        for (topic, partition), count in sorted(dropped.items())
    ]


class Consumption(ABC):
    """Work on some partitions, from its takeover until another process takes over or something fails.

    `what` names it in errors, with where its position is kept; `at_once` is how many records it applies together.
    """

    at_once = AT_ONCE

    def __init__(self, log: EventLog, what: str, topics: Sequence[Topic], *, from_now: bool) -> None:
        self._log = log
        self._what = what
        self._topics = topics
        self._from_now = from_now
        self._tried_at = 0.0
        self.positions = dict[TopicPartition, int]()
        self._reader: Reader | None = None

    @abstractmethod
    async def take_over(self, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Fence off who worked on these partitions before, and return where they continue; a new one begins as given."""

    @abstractmethod
    async def apply(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        """Do what follows from records, and move the positions to offsets. Raises: OwnershipLost, LogUnavailable."""

    @abstractmethod
    async def retry(self) -> None:
        """Retry parked events that no earlier one blocks."""

    @property
    @abstractmethod
    def has_parked(self) -> bool:
        """Whether events are parked, so that `retry` is called from time to time."""

    @property
    @abstractmethod
    def applied(self) -> int:
        """How many events it has applied."""

    @abstractmethod
    def remedy(self, topic_partition: TopicPartition, start: int) -> str:
        """Return how an operator goes on at `start`, since retention has dropped what is before it."""

    async def begin(self, partitions: Collection[int]) -> None:
        """Take partitions over from the process that had them, and read from where they are."""
        await self._refuse_missing()
        begins = {each: await self._begin_of(each) for each in topic_partitions(self._topics, partitions)}
        self.positions = await self.take_over(begins)
        await self._refuse_lost()
        await self.retry()
        self._reader = self._log.port.reader(self.positions)

    async def step(self, timeout_s: float = _PATIENCE_S) -> int:
        """Wait for records, apply them, and return how many.

        Raises: OwnershipLost, LogUnavailable, WiringError, DamagedRecord; as `begin` does for what is gone by now.
        """
        assert self._reader is not None  # noqa: S101  it has begun
        records = await self._reader.poll(self.at_once, timeout_s)
        for topic_partition, (first, to) in self._reader.take_lost().items():
            raise self._lost(topic_partition, first, to)
        moved = {each: self._reader.position(each) for each in self.positions}
        moved = {each: offset for each, offset in moved.items() if offset != self.positions[each]}
        if moved:
            await self.apply(records, moved)
            self.positions |= moved
        now = asyncio.get_running_loop().time()
        if self.has_parked and now - self._tried_at > _PATIENCE_S:
            await self.retry()
            self._tried_at = now
        return len(records)

    def wake(self) -> None:
        """Let a step that waits return."""
        if self._reader is not None:
            self._reader.wake()

    async def end(self) -> None:
        """Release what it holds."""
        if self._reader is not None:
            await self._reader.close()

    async def _begin_of(self, topic_partition: TopicPartition) -> int:
        port = self._log.port
        return await (port.end(*topic_partition) if self._from_now else port.start(*topic_partition))

    async def _refuse_missing(self) -> None:
        there = await self._log.port.topics()
        missing = [topic for topic in self._topics if topic.name not in there]
        if ERASURES in missing:
            await self._log.port.create_topics([ERASURES])
            missing.remove(ERASURES)
        if missing:
            raise LogUnavailable(f"the log has no topic {missing[0].name} yet: the services that write it make it")

    async def _refuse_lost(self) -> None:
        """Refuse a log that has lost what was applied, or what has to be."""
        for topic_partition, offset in self.positions.items():
            if offset > (end := await self._log.port.end(*topic_partition)):
                raise self._lost(topic_partition, offset, end)
        for topic_partition, count in (await dropped_before(self._log.port, self._topics, self.positions)).items():
            first = self.positions[topic_partition]
            raise self._lost(topic_partition, first, first + count)

    def _lost(self, topic_partition: TopicPartition, first: int, to: int) -> EventlibError:
        if first > to:
            return witnessed_loss(self._log.port, topic_partition, to, self._what, first)
        return ContractError(
            f"{self._what}: retention has dropped {topic_partition[0]}/{topic_partition[1]}/{first} up to {to} before it was "
            f"applied. To go on without that, {self.remedy(topic_partition, to)}"
        )


class ConsumptionRunner:
    """One process of a consumer; several share its `parts`, and take over those of one that dies.

    `service` is the name that they join the log under; `work` makes the work on what this process holds.
    """

    def __init__(
        self,
        log: EventLog,
        what: str,
        service: str,
        parts: int,
        work: Callable[[Mapping[int, Claim]], Consumption],
    ) -> None:
        self._log = log
        self._what = what
        self._service = service
        self._parts = parts
        self._open = work
        self._before = 0
        self._now: Consumption | None = None

    @property
    def applied(self) -> int:
        """How many events this process has applied."""
        return self._before + (self._now.applied if self._now else 0)

    async def run(self, startup: Startup | None = None) -> None:
        """Work until cancelled; what does not answer is waited for. Raises: WiringError, ContractError, LogCorrupt."""
        startup = startup or Startup()
        startup.begin(self._what)
        member = await startup.run(
            f"the right to work: {self._what}", lambda: self._log.port.join(self._service, self._parts)
        )
        try:
            held: Mapping[int, Claim] = {}
            while True:
                held = dict(await member.moved(held))
                moved = asyncio.ensure_future(member.changed(held))
                try:
                    await self._while_held(held, moved, startup)
                finally:
                    moved.cancel()
                    await asyncio.wait([moved])
        finally:
            startup.drop(self._what)
            with suppress(EventlibError):
                await member.leave()

    async def _while_held(
        self, held: Mapping[int, Claim], moved: "asyncio.Future[Mapping[int, Claim]]", startup: Startup
    ) -> None:
        while held and not moved.done():
            try:
                await self._work(held, moved, lambda: startup.done(self._what))
            except OwnershipLost:  # the log will say so, or the work is taken back
                await asyncio.wait([moved], timeout=_ASIDE_S)
            except RetryableError as error:
                await asyncio.wait([moved], timeout=startup.failed(self._what, error))
        if not held:
            startup.drop(self._what)
            await asyncio.wait([moved])
            startup.begin(self._what)

    async def _work(
        self, held: Mapping[int, Claim], moved: "asyncio.Future[Mapping[int, Claim]]", works: Callable[[], None]
    ) -> None:
        self._now = now = self._open(held)
        try:
            await now.begin(held)
            moved.add_done_callback(lambda _: now.wake())
            while not moved.done():
                await now.step()
                works()
        finally:
            self._before, self._now = self.applied, None
            await now.end()
