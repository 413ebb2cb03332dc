"""A sink's database: its connection, positions and parked events."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker, create_async_engine

from eventlib.errors import LogUnavailable, OwnershipLost, WiringError
from eventlib.ground.postgres import connection_to
from eventlib.log.base import Log, TopicPartition
from eventlib.model.kept_error import WITHHELD, kept_reason
from eventlib.model.record import Record
from eventlib.sinks.consuming import ParkedEvent, Status, not_parked, status_of
from eventlib.sinks.declaration import SqlSink
from eventlib.sinks.tables import (
    ADVANCE,
    COUNTS,
    FAILED,
    HELD,
    KEEP,
    LOCK_ALL,
    OWN,
    PARK,
    POSITIONS_NOW,
    RETRY,
    TAKE_OVER,
    UNPARK,
    WAITING,
    WITHHOLD,
)

_RAISED = "P0"
"""The class of states of what PL/pgSQL raises; drivers take it for an internal error."""
LONGEST_S = 60.0
"""How long a batch may take: a handler that hangs is given up, and its transaction undone."""


class SinkDatabase:
    """Where a sink writes. Its `schema` is the sink's, or that in which it is rebuilt."""

    def __init__(self, url: str, sink: SqlSink, schema: str | None = None) -> None:
        self.sink = sink
        self.schema = schema or sink.schema
        self.name, known = connection_to(url, f"eventlib sink {sink.name}")
        # A process that stands still within a transaction must not keep its successor waiting for ever.
        options = f"-cidle_in_transaction_session_timeout={LONGEST_S * 1000:.0f}"
        if self.schema is not None:
            options += f" -csearch_path={self.schema}"
        known["options"] = f"{options} {known.get('options', '')}".strip()
        self._engine = create_async_engine(
            "postgresql+psycopg://", connect_args=known, pool_size=2, hide_parameters=sink.is_personal
        )
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Begin a transaction, and commit it. Raises: LogUnavailable when that failed, or may have; WiringError."""
        try:
            async with asyncio.timeout(LONGEST_S), self._sessions.begin() as session:
                yield session
        except (TimeoutError, OSError, DBAPIError) as error:
            self.refuse(error)
            raise

    async def rows(self, session: AsyncSession, statement: TextClause, values: Mapping[str, Any]) -> Sequence[Any]:
        """Return the rows of a statement, whose fields are attributes."""
        return (await session.execute(statement, values)).all()

    async def changed(self, session: AsyncSession, statement: TextClause, values: Mapping[str, Any]) -> int:
        """Execute a statement, and return how many rows it changed."""
        return (await (await session.connection()).execute(statement, values)).rowcount

    def refuse(self, error: Exception) -> None:
        """Raise what an error of the database means: LogUnavailable, or WiringError; return for any other error."""
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        lost = lost or isinstance(error, TimeoutError | OSError | InterfaceError | InternalError | OperationalError)
        self.refuse_as(error, getattr(error, "orig", None) or error, is_lost=lost)

    def refuse_as(self, error: Exception, reason_of: object, *, is_lost: bool) -> None:
        """Raise what an error means, of which the driver's own has the kind and the reason."""
        if str(getattr(reason_of, "sqlstate", "")).startswith(_RAISED):
            return  # a trigger's refusal of a row is no outage, and may quote the row
        kind, reason = type(reason_of).__name__, str(reason_of).strip().partition("\n")[0]
        if self.sink.is_personal and not hasattr(reason_of, "sqlstate"):  # a handler's own, not the driver's
            reason = kept_reason(error, personal=True)
        if isinstance(error, TimeoutError):
            reason = f"no answer within {LONGEST_S:.0f} s"
        if kind == "UndefinedTable" and "eventlib_sink_" in reason:
            raise WiringError(
                f"sink {self.sink.name} has not written into {self.name} yet: `eventlib sink run` makes its tables"
            ) from error
        if kind in {"InsufficientPrivilege", "UndefinedTable", "UndefinedColumn", "InvalidSchemaName"}:
            raise WiringError(
                f"sink {self.sink.name}: {self.name} refuses: {reason}. Let its role, or a migration, make what is missing"
            ) from error
        if is_lost:
            raise LogUnavailable(
                f"the database of sink {self.sink.name} at {self.name} does not answer: {reason}"
            ) from error

    async def create(self) -> None:
        """Make the tables that are not there yet."""
        async with self.transaction() as session:
            await session.execute(text("SELECT pg_advisory_xact_lock(hashtext('eventlib_sinks'))"))
            if self.schema is not None:
                await session.execute(text(f"CREATE SCHEMA IF NOT EXISTS {self.schema}"))
            await (await session.connection()).run_sync(self._create)

    def _create(self, connection: Connection) -> None:
        OWN.create_all(connection)
        if self.sink.tables is not None:
            self.sink.tables.create_all(connection)

    async def take_over(
        self, log_id: str, begins: Mapping[TopicPartition, int], fence: str
    ) -> dict[TopicPartition, int]:
        """Fence off who wrote these partitions before, and return where they continue.

        Raises: WiringError when the tables are another version's, or of another log.
        """
        values = {"log_id": log_id, "version": self.sink.version, **self._of(begins, fence)}
        async with self.transaction() as session:
            rows = await self.rows(session, TAKE_OVER, values)
            if self.sink.is_personal:
                await self.changed(session, WITHHOLD, {"sink": self.sink.name, "withheld": WITHHELD})
            for row in rows:
                self._refuse_other(row.version, row.log_id, log_id)
        return {(row.topic, row.partition): row.next_offset for row in rows}

    def _refuse_other(self, version: int, found: str, log_id: str) -> None:
        name, mine = self.sink.name, self.sink.version
        if version > mine:
            raise WiringError(
                f"sink {name}: its tables are of version {version}, and this code is version {mine}: deploy newer"
            )
        if version < mine:
            raise WiringError(
                f"sink {name}: its tables are of version {version}, and this code is version {mine}: `eventlib sink rebuild`"
            )
        if found != log_id:
            remedy = (
                "`eventlib sink rebuild`"
                if self.sink.tables is not None
                else (
                    f"if it continues there, set log_id = '{log_id}' in eventlib_sink_positions where sink = '{name}'"
                )
            )
            raise WiringError(f"sink {name}: its positions in {self.name} are those of another log: {remedy}")

    async def advance(self, session: AsyncSession, offsets: Mapping[TopicPartition, int], fence: str) -> None:
        """Move positions, within a transaction; it waits for who writes them. Raises: OwnershipLost."""
        if await self.changed(session, ADVANCE, self._of(offsets, fence)) != len(offsets):
            raise OwnershipLost(f"another process has taken partitions of sink {self.sink.name} over")

    async def lock_all(self, session: AsyncSession) -> None:
        """Wait, within a transaction, for each other that moves a position of the sink."""
        await self.changed(session, LOCK_ALL, {"sink": self.sink.name})

    @asynccontextmanager
    async def alone(self, session: AsyncSession) -> AsyncIterator[None]:
        """Do something within a transaction that can fail without it."""
        async with session.begin_nested():
            yield
            await session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))  # or the whole transaction fails

    async def park(self, session: AsyncSession, record: Record, key: str | None, error: str | None) -> None:
        """Park an event, within a transaction."""
        values = {**self._place(record), "type": record.type, "key": key, "error": error}
        await self.changed(session, PARK, values)

    async def settle(self, session: AsyncSession, parked: ParkedEvent, error: str | None) -> None:
        """Remove a parked event within the transaction that applies it, or leave it with a new error."""
        await self.changed(session, UNPARK if error is None else KEEP, {**self._place(parked), "error": error})

    def _place(self, parked: Record | ParkedEvent) -> dict[str, Any]:
        return {"sink": self.sink.name, "topic": parked.topic, "partition": parked.partition, "offset": parked.offset}

    def _of(self, offsets: Mapping[TopicPartition, int], fence: str) -> dict[str, Any]:
        topics, partitions = [topic for topic, _ in offsets], [partition for _, partition in offsets]
        given = {"topics": topics, "partitions": partitions, "offsets": [*offsets.values()]}
        return {"sink": self.sink.name, "fence": fence, **given}

    async def status(self, log: Log, most: int) -> Status:
        """Return how far the sink is, with the first events that could not be handled."""
        name = {"sink": self.sink.name}
        async with self.transaction() as session:
            rows = await self.rows(session, POSITIONS_NOW, name)
            ((parked, failed),) = await self.rows(session, COUNTS, name)
            first = await self.rows(session, FAILED, {**name, "most": most})
        positions = {(row.topic, row.partition): row.next_offset for row in rows}
        status = await status_of(log, self.sink.name, self.sink.topics, positions)
        return replace(status, waiting=parked - failed, failed=failed, first=[ParkedEvent(*row) for row in first])

    async def waiting(self, partitions: Collection[int]) -> list[ParkedEvent]:
        """Return the first parked events that may be tried, in their order."""
        async with self.transaction() as session:
            rows = await self.rows(session, WAITING, {"sink": self.sink.name, "partitions": [*partitions]})
            return [ParkedEvent(*row) for row in rows]

    async def held(self) -> set[tuple[str, str]]:
        """Return the topic and key of each parked event."""
        async with self.transaction() as session:
            return {(row.topic, row.key) for row in await self.rows(session, HELD, {"sink": self.sink.name})}

    async def retry(self, event_id: str | None) -> int:
        """Let a parked event, or all, be tried again; return how many. Raises: WiringError when it is not parked with an error."""
        async with self.transaction() as session:
            found = await self.changed(session, RETRY, {"sink": self.sink.name, "id": event_id or ""})
        if event_id is not None and not found:
            raise not_parked(event_id, "sink", self.sink.name)
        return found

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection, within a transaction that commits at the end."""
        async with self._engine.begin() as connection:
            yield connection

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


def database_of(sink: SqlSink, url: str | None) -> SinkDatabase:
    """Return a sink's database, not connected yet. Raises: WiringError without a URL."""
    if sink.own_database is not None:
        found: SinkDatabase = sink.own_database()
        return found
    if url is None:
        raise WiringError("name the database: --database postgresql://USER@HOST/DATABASE, or EVENTLIB_SINK_DATABASE")
    return SinkDatabase(url, sink)
