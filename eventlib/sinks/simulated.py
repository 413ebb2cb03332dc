"""Sinks in the simulator: the real loop and the real applying of events, on a database in memory that fails as a schedule says.

It executes no SQL: its rows say which events were applied, and a handler raises when the schedule says so.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from eventlib.errors import LogUnavailable, OwnershipLost
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import check
from eventlib.log.base import TopicPartition
from eventlib.model.event import Event, Meta, contract_of
from eventlib.model.record import Record
from eventlib.simulation.consumer_process import ConsumerProcess
from eventlib.simulation.consumers import SimulatedConsumer
from eventlib.sinks.applying import SinkRunner
from eventlib.sinks.consuming import Location, ParkedEvent
from eventlib.sinks.database import SinkDatabase
from eventlib.sinks.declaration import SqlSink

_RAISES = (*[False] * 7, True)


@dataclass
class _Tables:
    """What is committed: where each partition continues and who may write it, and what is parked."""

    positions: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    parked: dict[Location, ParkedEvent] = field(default_factory=dict)

    def copy(self) -> "_Tables":
        return _Tables(self.positions.copy(), self.parked.copy())


class SimulatedSink(SimulatedConsumer):
    """A sink in a scenario: `def consumers(self): return [SimulatedSink(orders)]`.

    It gets the events that the sink has handlers for, from the log's beginning on; the handlers themselves are not called.
    """

    counts_once = True

    def __init__(self, sink: SqlSink) -> None:
        check(sink, SqlSink, "sink", "give a sink: `SimulatedSink(orders)`")
        super().__init__(sink.name, {contract_of(event).type for event in sink.handlers})
        self.tables = _Tables()
        self.writing: _Transaction | None = None
        self._sink = SqlSink(sink.name, sink.choreography)

        def applied(_event: Event, session: Session, meta: Meta) -> None:
            session.add((meta.topic, meta.partition, meta.offset))

        applied.__annotations__["_event"] = reduce(or_, sink.handlers)
        self._sink.on(applied)

    async def run(self, log: EventLog, process: ConsumerProcess) -> None:
        """See `SimulatedConsumer.run`."""
        await SinkRunner(log, _SimulatedDatabase(self, self._sink, process)).run(process.startup)

    async def operate(self, log: EventLog, process: ConsumerProcess) -> None:
        """See `SimulatedConsumer.operate`."""
        del log
        await _SimulatedDatabase(self, self._sink, process).retry(None)


class _Transaction:
    """A transaction, which writes on a copy and keeps others from writing; it stands for SQLAlchemy's session, too."""

    def __init__(self, of: SimulatedSink, process: ConsumerProcess) -> None:
        self._of = of
        self._process = process
        self._copy: _Tables | None = None
        self.rows = list[Location]()

    @property
    def tables(self) -> _Tables:
        """The tables, for writing: who writes meanwhile, and stands still, is ended by the server."""
        if self._copy is None:
            self._of.writing, self._copy = self, self._of.tables.copy()
        return self._copy

    def commit(self) -> None:
        """Commit it. Raises: LogUnavailable when the server has ended it."""
        if self._copy is not None and self._of.writing is not self:
            raise LogUnavailable("simulated: the server has ended the transaction")
        if self._copy is not None:
            self._of.tables = self._copy
        self._process.take(self.rows)

    def add(self, row: Location) -> None:
        """See `Session.add`."""
        self.rows.append(row)

    def flush(self) -> None:
        """See `Session.flush`."""

    async def run_sync(self, work: Callable[[Any], Any]) -> Any:
        """See `AsyncSession.run_sync`."""
        await self._process.reached("within a transaction")
        if self._process.choose("whether a handler raises", _RAISES):
            self._process.tell("has a handler that raises")
            raise ValueError("simulated")
        return work(self)


class _SimulatedDatabase(SinkDatabase):
    """See `SinkDatabase`; its connections are a process's own."""

    def __init__(self, of: SimulatedSink, sink: SqlSink, process: ConsumerProcess) -> None:
        self.sink, self.schema, self.name = sink, sink.schema, "the simulator"
        self._kept = of
        self._process = process

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """See `SinkDatabase.transaction`: a commit may fail, and an answer to it be lost."""
        transaction = _Transaction(self._kept, self._process)
        yield cast("AsyncSession", transaction)
        await self._process.reached("before a commit")
        transaction.commit()
        await self._process.reached("after a commit")

    def refuse(self, error: Exception) -> None:
        """See `SinkDatabase.refuse`: what this database means, it raises."""

    async def create(self) -> None:
        """See `SinkDatabase.create`."""

    async def take_over(
        self, log_id: str, begins: Mapping[TopicPartition, int], fence: str
    ) -> dict[TopicPartition, int]:
        """See `SinkDatabase.take_over`."""
        del log_id
        async with self.transaction() as session:
            positions = _tables(session).positions
            positions |= {each: (positions.get(each, (at, ""))[0], fence) for each, at in begins.items()}
        return {each: positions[each][0] for each in begins}

    async def advance(self, session: AsyncSession, offsets: Mapping[TopicPartition, int], fence: str) -> None:
        """See `SinkDatabase.advance`."""
        positions = _tables(session).positions
        if any(positions[each][1] != fence or positions[each][0] > at for each, at in offsets.items()):
            raise OwnershipLost(f"another process has taken partitions of sink {self.sink.name} over")
        positions |= {each: (at, fence) for each, at in offsets.items()}

    async def lock_all(self, session: AsyncSession) -> None:
        """See `SinkDatabase.lock_all`."""
        _tables(session)

    @asynccontextmanager
    async def alone(self, session: AsyncSession) -> AsyncIterator[None]:
        """See `SinkDatabase.alone`."""
        rows = cast("_Transaction", session).rows
        before = len(rows)
        try:
            yield
        except Exception:
            del rows[before:]
            raise

    async def park(self, session: AsyncSession, record: Record, key: str | None, error: str | None) -> None:
        """See `SinkDatabase.park`."""
        parked = ParkedEvent(*record.location, record.type, key, error)
        _tables(session).parked.setdefault(parked.location, parked)

    async def settle(self, session: AsyncSession, parked: ParkedEvent, error: str | None) -> None:
        """See `SinkDatabase.settle`."""
        tables = _tables(session)
        if error is None:
            del tables.parked[parked.location]
        else:
            tables.parked[parked.location] = replace(parked, error=error)

    async def waiting(self, partitions: Collection[int]) -> list[ParkedEvent]:
        """See `SinkDatabase.waiting`."""
        await self._process.reached("before a query")
        found, blocked = list[ParkedEvent](), set[tuple[str, str | None]]()
        for each in self._kept.tables.parked.values():
            if each.error is not None:
                blocked.add((each.topic, each.key))
            elif each.partition in partitions and (each.topic, each.key) not in blocked:
                found.append(each)
        return found

    async def held(self) -> set[tuple[str, str]]:
        """See `SinkDatabase.held`."""
        await self._process.reached("before a query")
        return {(each.topic, each.key) for each in self._kept.tables.parked.values() if each.key is not None}

    async def retry(self, event_id: str | None) -> int:
        """See `SinkDatabase.retry`."""
        del event_id
        async with self.transaction() as session:
            parked = _tables(session).parked
            failed = {
                location: replace(each, error=None) for location, each in parked.items() if each.error is not None
            }
            parked |= failed
        return len(failed)


def _tables(session: AsyncSession) -> _Tables:
    return cast("_Transaction", session).tables
