"""Runs a sink: applies records to its tables, each once, and parks those that cannot be applied."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from time import time_ns
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from eventlib.errors import LogUnavailable, RetryableError, WiringError
from eventlib.eventlog import CALLER, EventLog
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event
from eventlib.model.kept_error import KeptError
from eventlib.model.record import Record, text_of
from eventlib.personal.receipt import ERASED_TYPE, ERASURES, read_receipt
from eventlib.sinks.consuming import (
    Applied,
    Consumption,
    ConsumptionRunner,
    ObserveApplied,
    ParkedEvent,
    partitions_of,
)
from eventlib.sinks.database import SinkDatabase
from eventlib.sinks.declaration import Handler
from eventlib.values import escaped

_log = logging.getLogger(__name__)

_FORGOTTEN_S = 0.1
"""How long after an erasure a process may still have the key at most, and some."""


@dataclass(frozen=True, slots=True)
class _Call:
    function: Any
    arguments: tuple[Any, ...]
    """Without the session, which is the second."""
    traceparent: str | None
    is_async: bool = False

    def now(self, session: Session | AsyncSession) -> Any:
        first, *others = self.arguments
        token = CALLER.set(self.traceparent)
        try:
            return self.function(first, session, *others)
        finally:
            CALLER.reset(token)

    async def awaited(self, session: AsyncSession) -> None:
        first, *others = self.arguments
        token = CALLER.set(self.traceparent)
        try:
            await self.function(first, session, *others)
        finally:
            CALLER.reset(token)


class Sinking(Consumption):
    """A sink's work on some partitions: rows, positions and parked events in one database, written under one fence."""

    def __init__(self, log: EventLog, database: SinkDatabase, observe: ObserveApplied = lambda _: None) -> None:
        self._sink = sink = database.sink
        super().__init__(log, f"sink {sink.name} in {database.name}", sink.topics, from_now=sink.from_now)
        self.database = database
        self.fence = token_hex(8)
        self._observe = observe
        self._types = {event.__name__ for event in sink.handlers}
        self._held = set[tuple[str, str]]()

    @property
    def has_parked(self) -> bool:
        """See `Consumption.has_parked`; later events of the topic and key of a parked one are parked behind it."""
        return bool(self._held)

    async def take_over(self, begins: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `Consumption.take_over`."""
        await self.database.create()
        return await self.database.take_over(self._log.port.log_id, begins, self.fence)

    def remedy(self, topic_partition: TopicPartition, start: int) -> str:
        """See `Consumption.remedy`."""
        topic, partition = topic_partition
        return (
            f"set next_offset = {start} in eventlib_sink_positions where sink = '{self._sink.name}' and "
            f"topic = '{topic}' and partition = {partition}"
        )

    async def apply(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        """See `Consumption.apply`; it is one transaction. Raises: WiringError, too."""
        wanted = [record for record in records if self._is_wanted(record)]
        wanted.sort(key=_is_erasure)  # behind what was read before it
        began_ns = time_ns()
        if not any(_place(record) in self._held for record in wanted):
            try:
                await self._all(wanted, offsets)
            except (RetryableError, WiringError):
                raise
            except Exception as error:  # noqa: BLE001  whatever a handler raises; which, is found singly
                why = self._kept(error).first_line
                _log.info("sink %s applies %d records singly: %s", self._sink.name, len(wanted), why)
            else:
                self.applied += len(wanted)
                self._tell([(record, "") for record in wanted], began_ns)
                return
        await self._singly(wanted, offsets)

    async def retry(self) -> None:
        """See `Consumption.retry`; in their order for each topic and key."""
        partitions = {partition for _, partition in self.positions}
        while waiting := await self.database.waiting(partitions):
            blocked = set[tuple[str, str | None]]()
            for each in waiting:
                if each.key is not None and (each.topic, each.key) in blocked:
                    continue
                if not await self._again(each):
                    blocked.add((each.topic, each.key))
        self._held = await self.database.held()

    def _is_wanted(self, record: Record) -> bool:
        return record.topic in self._log.external.topics or record.type in self._types or _is_erasure(record)

    async def _all(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        async with self.database.transaction() as session:
            await self._begin(session, records, offsets)
            await self._run(session, await self._calls(records))

    async def _begin(
        self, session: AsyncSession, records: Sequence[Record], offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Take the positions before anything is decoded.

        So an erasure waits for each transaction that may have decoded its subject, and those that wait for it decode after it.
        """
        if any(_is_erasure(record) for record in records):
            await self.database.lock_all(session)
            await asyncio.sleep(_FORGOTTEN_S)
        await self.database.advance(session, offsets, self.fence)

    async def _singly(self, records: Sequence[Record], offsets: Mapping[TopicPartition, int]) -> None:
        outcomes, began_ns = list[tuple[Record, str]](), time_ns()
        async with self.database.transaction() as session:
            await self._begin(session, records, offsets)
            for record in records:
                if (place := _place(record)) in self._held:
                    await self._park(session, record, None)
                    continue
                error = await self._one(session, record)
                outcomes.append((record, error or ""))
                if error is not None:
                    await self._park(session, record, error)
                    if place is not None:
                        self._held.add(place)
        self.applied += sum(not error for _, error in outcomes)  # once it is committed
        self._tell(outcomes, began_ns)

    def _tell(self, outcomes: Sequence[tuple[Record, str]], began_ns: int) -> None:
        self._observe(Applied(self._sink.name, outcomes, began_ns, time_ns()))

    async def _one(self, session: AsyncSession, record: Record) -> str | None:
        """Apply one record, or change nothing and return why."""
        try:
            async with self.database.alone(session):
                await self._run(session, await self._calls([record]))
        except (RetryableError, WiringError):
            raise
        except Exception as error:  # noqa: BLE001  it is parked with its event
            self.database.refuse(error)
            kept = self._kept(error)
            reason = escaped(kept.first_line)
            _log.error("sink %s parks %s/%d/%d: %s", self._sink.name, *record.location, reason)
            _log.debug("%s", kept.traceback)
            return reason
        return None

    def _kept(self, error: Exception) -> KeptError:
        return KeptError.of(error, personal=self._sink.is_personal)

    async def _park(self, session: AsyncSession, record: Record, error: str | None) -> None:
        key = None if record.key is None else escaped(text_of(record.key))
        await self.database.park(session, record, key, error)

    async def _again(self, parked: ParkedEvent) -> bool:
        records = await self._log.port.read(*parked.location, 1)
        offsets = {parked.location[:2]: self.positions[parked.location[:2]]}
        found, began_ns = next((record for record in records if record.offset == parked.offset), None), time_ns()
        async with self.database.transaction() as session:
            await self._begin(session, [found] if found else [], offsets)
            error = "it is not on the log any more" if found is None else await self._one(session, found)
            await self.database.settle(session, parked, error)
        self.applied += error is None
        self._tell([] if found is None else [(found, error or "")], began_ns)
        return error is None

    async def _calls(self, records: Sequence[Record]) -> list[_Call]:
        calls, many = list[_Call](), dict[int, list[Event]]()
        last: Handler | None = None
        for record in records:
            if _is_erasure(record):
                calls.append(_Call(self._sink.forget, (read_receipt(record).subject,), None))
                continue
            event = await self._log.decode_now(record)
            handler = None if event is None else self._sink.handlers.get(type(event))
            if event is None or handler is None:
                continue
            if handler.takes_many:
                if handler is not last:
                    many[id(handler)] = []
                    calls.append(_Call(handler.function, (many[id(handler)],), None, handler.is_async))
                many[id(handler)].append(event)
            else:
                meta = (record.meta(),) if handler.takes_meta else ()
                calls.append(_Call(handler.function, (event, *meta), record.traceparent, handler.is_async))
            last = handler
        return calls

    async def _run(self, session: AsyncSession, calls: Sequence[_Call]) -> None:
        try:
            await self._called(session, calls)
        except (RetryableError, WiringError) as error:
            if not self._sink.is_personal:
                raise
            kind = WiringError if isinstance(error, WiringError) else LogUnavailable
            raise kind(f"a handler of sink {self._sink.name} raised {self._kept(error).reason}") from None

    async def _called(self, session: AsyncSession, calls: Sequence[_Call]) -> None:
        if any(call.is_async for call in calls):
            for call in calls:
                await (call.awaited(session) if call.is_async else session.run_sync(call.now))
            await session.flush()
        else:
            await session.run_sync(lambda plain: _run_all(plain, calls))


class SinkRunner(ConsumptionRunner):
    """One process of a sink; several share its partitions, and take over those of one that dies.

    Guarantee: an event's rows and the sink's position are one transaction, which changes nothing once another process has
    taken the partition over.
    """

    def __init__(self, log: EventLog, database: SinkDatabase, observe: ObserveApplied = lambda _: None) -> None:
        sink = database.sink
        parts = partitions_of(sink.topics)
        super().__init__(
            log, f"sink {sink.name}", f"_sink.{sink.name}", parts, lambda _: Sinking(log, database, observe)
        )


def _run_all(session: Session, calls: Sequence[_Call]) -> None:
    for call in calls:
        call.now(session)
    session.flush()


def _is_erasure(record: Record) -> bool:
    return record.topic == ERASURES.name and record.type == ERASED_TYPE


def _place(record: Record) -> tuple[str, str] | None:
    return None if record.key is None else (record.topic, escaped(text_of(record.key)))
