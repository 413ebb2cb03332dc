"""Runs a sink: its processes share the partitions, and a position moves with the rows that follow from it."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from secrets import token_hex
from time import monotonic

from eventlib.errors import ContractError, EventlibError, LogUnavailable, OwnershipLost, RetryableError
from eventlib.eventlog import EventLog
from eventlib.log.base import Claim, Reader, TopicPartition
from eventlib.log.rules import witnessed_loss
from eventlib.personal.receipt import ERASURES
from eventlib.sinks.applying import Applier
from eventlib.sinks.database import SinkDatabase
from eventlib.sinks.declaration import SqlSink
from eventlib.startup import Startup

AT_ONCE = 500
"""How many records a transaction has at most."""

_PATIENCE_S = 1.0
_ASIDE_S = 0.5


def partitions_of(sink: SqlSink) -> int:
    """Return into how many parts a sink's work is divided."""
    return max(topic.partitions for topic in sink.topics)


def topic_partitions(sink: SqlSink, partitions: Collection[int]) -> list[TopicPartition]:
    """Return what belongs to parts of a sink."""
    return [(each.name, part) for each in sink.topics for part in sorted(partitions) if part < each.partitions]


class Sinking:
    """A sink's work on some partitions, from its takeover until another takes over or something fails."""

    def __init__(self, log: EventLog, database: SinkDatabase) -> None:
        self._log = log
        self.database = database
        self._sink = database.sink
        self.fence = token_hex(8)
        self._tried_at = 0.0
        self.applier = Applier(log, database, self.fence)
        self.positions = dict[TopicPartition, int]()
        self._reader: Reader | None = None

    async def begin(self, partitions: Collection[int]) -> None:
        """Take partitions over from whoever wrote them, and read from where they are."""
        await self._refuse_missing()
        await self.database.create()
        begins = {each: await self._begin_of(each) for each in topic_partitions(self._sink, partitions)}
        self.positions = await self.database.take_over(self._log.port.log_id, begins, self.fence)
        for topic_partition, offset in self.positions.items():
            await self._refuse_lost(topic_partition, offset)
        await self.applier.retry(self.positions)
        self._reader = self._log.port.reader(self.positions)

    async def step(self, timeout_s: float = _PATIENCE_S) -> int:
        """Wait for records, apply them, and return how many. Raises: OwnershipLost, LogUnavailable, WiringError, DamagedRecord."""
        assert self._reader is not None  # noqa: S101  it has begun
        records = await self._reader.poll(AT_ONCE, timeout_s)
        moved = {each: self._reader.position(each) for each in self.positions}
        moved = {each: offset for each, offset in moved.items() if offset != self.positions[each]}
        if moved:
            await self.applier.apply(records, moved)
            self.positions |= moved
        if self.applier.held and monotonic() - self._tried_at > _PATIENCE_S:
            await self.applier.retry(self.positions)
            self._tried_at = monotonic()
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
        return await (port.end(*topic_partition) if self._sink.from_now else port.start(*topic_partition))

    async def _refuse_missing(self) -> None:
        there = await self._log.port.topics()
        missing = [topic for topic in self._sink.topics if topic.name not in there]
        if ERASURES in missing:
            await self._log.port.create_topics([ERASURES])
            missing.remove(ERASURES)
        if missing:
            raise LogUnavailable(f"the log has no topic {missing[0].name} yet: the services that write it make it")

    async def _refuse_lost(self, topic_partition: TopicPartition, offset: int) -> None:
        """Refuse a log that has lost what was applied, or what has to be."""
        port, (topic, partition), name = self._log.port, topic_partition, self._sink.name
        if offset > (end := await port.end(topic, partition)):
            raise witnessed_loss(port, topic_partition, end, f"sink {name} in {self.database.name}", offset)
        compacted = any(each.name == topic and each.compacted for each in self._sink.topics)
        if not compacted and offset < (start := await port.log_start(topic, partition)):
            where = f"eventlib_sink_positions where sink = '{name}'"
            raise ContractError(
                f"sink {name}: retention has dropped {topic}/{partition}/{offset} up to {start} before it was applied. To go "
                f"on without that, set next_offset = {start} in {where} and topic = '{topic}' and partition = {partition}"
            )


class SinkRunner:
    """One process of a sink; several share its partitions, and take over those of one that dies.

    Guarantee: an event's rows and the sink's position are one transaction, which changes nothing once another process has
    taken the partition over.
    """

    def __init__(self, log: EventLog, database: SinkDatabase) -> None:
        self._log = log
        self._database = database
        self._sink = database.sink
        self._before = 0
        self._now: Sinking | None = None

    @property
    def applied(self) -> int:
        """How many events this process has applied."""
        return self._before + (self._now.applier.applied if self._now else 0)

    async def run(self, startup: Startup | None = None) -> None:
        """Work until cancelled; a database or log that does not answer is waited for. Raises: WiringError, LogCorrupt."""
        startup = startup or Startup()
        service, parts = f"_sink.{self._sink.name}", partitions_of(self._sink)
        member = await startup.run("the right to write", lambda: self._log.port.join(service, parts))
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
            with suppress(EventlibError):
                await member.leave()

    async def _while_held(
        self, held: Mapping[int, Claim], moved: "asyncio.Future[Mapping[int, Claim]]", startup: Startup
    ) -> None:
        what = f"sink {self._sink.name}"
        while held and not moved.done():
            try:
                await self._work(held, moved, lambda: startup.done(what))
            except OwnershipLost:  # as the database has it: the log will say so, or we take it back
                await asyncio.wait([moved], timeout=_ASIDE_S)
            except RetryableError as error:
                await asyncio.wait([moved], timeout=startup.failed(what, error))
        if not held:
            await asyncio.wait([moved])

    async def _work(
        self, held: Mapping[int, Claim], moved: "asyncio.Future[Mapping[int, Claim]]", works: Callable[[], None]
    ) -> None:
        self._now = now = Sinking(self._log, self._database)
        try:
            await now.begin(held)
            moved.add_done_callback(lambda _: now.wake())
            while not moved.done():
                await now.step()
                works()
        finally:
            self._before, self._now = self.applied, None
            await now.end()
