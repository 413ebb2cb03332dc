"""Consumes topics, with a position that is kept with what follows from the events: the loop of sinks and of webhooks."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from eventlib.errors import ContractError, EventlibError, LogUnavailable, OwnershipLost, RetryableError, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.log.base import Claim, Log, Reader, TopicPartition
from eventlib.log.rules import witnessed_loss
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.personal.receipt import ERASURES

AT_ONCE = 500
"""How many records are applied together at most."""

Location = tuple[str, int, int]
"""Topic, partition and offset of an event."""

_PATIENCE_S = 1.0
_ASIDE_S = 0.5


@dataclass(slots=True)
class ParkedEvent:
    """An event that is to be applied later; `error` is that of the last attempt, None while it waits for an earlier event.

    `due_ms` is when the next attempt is: 0 for at once, None for none before an operator asks for it.
    """

    topic: str
    partition: int
    offset: int
    type: str | None
    key: str | None
    error: str | None = None
    attempts: int = 0
    due_ms: int | None = 0

    @property
    def location(self) -> Location:
        """Topic, partition and offset of its record."""
        return self.topic, self.partition, self.offset

    @property
    def id(self) -> str:
        """The argument that names it in commands."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def has_failed(self) -> bool:
        """Whether it waits for an operator."""
        return self.due_ms is None


@dataclass(frozen=True, slots=True)
class Status:
    """How far a consumer is: offsets that it lacks, None before its first start; events that are retried, wait behind others, or failed.

    `first` are the first events with an error; `lost` names what retention has dropped before it was applied. `lags` and
    `dropped` are offsets by partition; `disabled` is why nothing is sent to a subscriber.
    """

    name: str
    lag: int | None
    lost: Sequence[str]
    lags: Mapping[TopicPartition, int]
    dropped: Mapping[TopicPartition, int]
    retried: int = 0
    waiting: int = 0
    failed: int = 0
    disabled: str | None = None
    first: Sequence[ParkedEvent] = ()

    def as_json(self) -> dict[str, Any]:
        """Return its fields, those by partition left out."""
        return {name: value for name, value in asdict(self).items() if name not in {"lags", "dropped"}}


async def status_of(log: Log, name: str, topics: Sequence[Topic], positions: Mapping[TopicPartition, int]) -> Status:
    """Return the status of a consumer that is at these positions, and has nothing parked."""
    there = await log.topics()
    begun = [each for each in topic_partitions(topics) if each in positions and each[0] in there]
    lags = {each: max(await log.end(*each) - positions[each], 0) for each in begun}
    dropped = await dropped_before(log, topics, positions)
    lost = [
        f"{topic}/{partition}: offsets {positions[topic, partition]} to {positions[topic, partition] + count - 1}"
        for (topic, partition), count in sorted(dropped.items())
    ]
    return Status(name, sum(lags.values()) if positions else None, lost, lags, dropped)


class Applied(NamedTuple):
    """Records whose rows were committed together, each with the error that it is parked with; empty when it was applied.

    `began_ns` and `ended_ns` are since 1970.
    """

    sink: str
    outcomes: Sequence[tuple[Record, str]]
    began_ns: int
    ended_ns: int


ObserveApplied = Callable[[Applied], None]
"""Is called after each transaction."""


def not_parked(event_id: str, command: str, name: str) -> WiringError:
    """Return the error for an event that an operator names, and that has not failed."""
    return WiringError(
        f"{event_id} is not a parked event of {name} with an error: `eventlib {command} status` lists those that are"
    )


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
        self.applied = 0
        """How many events it has applied."""
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


class PartitionWork(Protocol):
    """What a process does with partitions that it holds, until another one takes over or something fails."""

    applied: int
    """How many events it has applied."""

    async def begin(self, partitions: Collection[int]) -> None:
        """Take partitions over from the process that had them."""

    async def step(self) -> object:
        """Do what there is to do, or wait for it a while."""

    def wake(self) -> None:
        """Let a step that waits return."""

    async def end(self) -> None:
        """Release what it holds."""


class ConsumptionRunner:
    """One process of a sink, a subscriber or a relay; several share its `parts`, and take over those of one that dies.

    `service` is the name that they join the log under; `work` makes the work on what this process holds.
    """

    def __init__(
        self,
        log: EventLog,
        what: str,
        service: str,
        parts: int,
        work: Callable[[Mapping[int, Claim]], PartitionWork],
    ) -> None:
        self._log = log
        self._what = what
        self._service = service
        self._parts = parts
        self._open = work
        self._before = 0
        self._now: PartitionWork | None = None

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
