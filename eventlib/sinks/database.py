"""A sink's database: its connection, positions and parked events."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker, create_async_engine

from eventlib.errors import LogUnavailable, OwnershipLost, WiringError
from eventlib.log.base import TopicPartition
from eventlib.postgres import connection_to
from eventlib.sinks.declaration import SqlSink
from eventlib.sinks.tables import ADVANCE, COUNTS, FAILED, HELD, OWN, POSITIONS, RETRY, TAKE_OVER, WAITING

LONGEST_S = 60.0
"""How long a batch may take: a handler that hangs is given up, and its transaction undone."""


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event that could not be handled, or that waits for one; `error` is None when it is to be tried."""

    id: int
    topic: str
    partition: int
    offset: int
    type: str | None
    key: str | None
    error: str | None


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
        self._engine = create_async_engine("postgresql+psycopg://", connect_args=known, pool_size=2)
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

    def refuse(self, error: Exception) -> None:
        """Raise what an error of the database means: LogUnavailable, or WiringError; return for any other error."""
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        if isinstance(error, TimeoutError):
            reason = f"no answer within {LONGEST_S:.0f} s"
        if _kind(error) == "UndefinedTable" and "eventlib_sink_" in reason:
            raise WiringError(
                f"sink {self.sink.name} has not written into {self.name} yet: `eventlib sink run` makes its tables"
            ) from error
        if _kind(error) in {"InsufficientPrivilege", "UndefinedTable", "UndefinedColumn", "InvalidSchemaName"}:
            raise WiringError(
                f"sink {self.sink.name}: {self.name} refuses: {reason}. Let its role, or a migration, make what is missing"
            ) from error
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        if lost or isinstance(error, TimeoutError | OSError | InterfaceError | InternalError | OperationalError):
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
            rows = (await session.execute(TAKE_OVER, values)).all()
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
        done = await (await session.connection()).execute(ADVANCE, self._of(offsets, fence))
        if done.rowcount != len(offsets):
            raise OwnershipLost(f"another process has taken partitions of sink {self.sink.name} over")

    def _of(self, offsets: Mapping[TopicPartition, int], fence: str) -> dict[str, Any]:
        topics, partitions = [topic for topic, _ in offsets], [partition for _, partition in offsets]
        given = {"topics": topics, "partitions": partitions, "offsets": [*offsets.values()]}
        return {"sink": self.sink.name, "fence": fence, **given}

    async def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition."""
        mine = select(POSITIONS).where(POSITIONS.c.sink == self.sink.name)
        async with self.transaction() as session:
            return {(row.topic, row.partition): row.next_offset for row in await session.execute(mine)}

    async def parked(self) -> tuple[int, int]:
        """Return how many events are parked, and how many of them have an error."""
        async with self.transaction() as session:
            parked, failed = (await session.execute(COUNTS, {"sink": self.sink.name})).one()
            return parked, failed

    async def failed(self, most: int) -> list[ParkedEvent]:
        """Return the first events that could not be handled."""
        async with self.transaction() as session:
            rows = await session.execute(FAILED, {"sink": self.sink.name, "most": most})
            return [ParkedEvent(*row) for row in rows]

    async def waiting(self, partitions: Collection[int]) -> list[ParkedEvent]:
        """Return the first parked events that may be tried, in their order."""
        async with self.transaction() as session:
            rows = await session.execute(WAITING, {"sink": self.sink.name, "partitions": [*partitions]})
            return [ParkedEvent(*row) for row in rows]

    async def held(self) -> set[tuple[str, str]]:
        """Return the topic and key of each parked event."""
        async with self.transaction() as session:
            return {(row.topic, row.key) for row in await session.execute(HELD, {"sink": self.sink.name})}

    async def retry(self, event_id: int | None) -> int:
        """Let a parked event, or all, be tried again; return how many."""
        async with self.transaction() as session:
            connection = await session.connection()
            return (await connection.execute(RETRY, {"sink": self.sink.name, "id": event_id})).rowcount

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection, within a transaction that commits at the end."""
        async with self._engine.begin() as connection:
            yield connection

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()


def _kind(error: Exception) -> str:
    return type(getattr(error, "orig", error)).__name__


def behind(positions: Mapping[TopicPartition, int], ends: Collection[tuple[TopicPartition, int]]) -> int:
    """Return how many offsets lie between positions and ends."""
    return sum(max(end - positions.get(each, 0), 0) for each, end in ends)
