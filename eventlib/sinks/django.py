"""The inbox of a Django application: events are taken within Django's own transactions, in a thread of their own."""

import asyncio
import inspect
import sys
from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast

import django
from django.db import DatabaseError, InterfaceError, InternalError, OperationalError, connections, transaction
from sqlalchemy import Dialect, TextClause
from sqlalchemy.dialects.postgresql.psycopg import dialect
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.schema import CreateTable

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, Meta
from eventlib.model.signatures import events_in, hints_of, name_of, positional, takes_meta
from eventlib.sinks.database import LONGEST_S, SinkDatabase
from eventlib.sinks.declaration import Handler, SqlSink
from eventlib.sinks.tables import OWN

H = TypeVar("H", bound=Callable[..., None])
T = TypeVar("T")

_POSTGRESQL: Dialect = dialect()  # type: ignore[no-untyped-call]  # it is SQLAlchemy's own


def set_up() -> None:
    """Set Django up by the settings that DJANGO_SETTINGS_MODULE names, once."""
    django.setup()


class DjangoInbox(SqlSink):
    """Takes events into an application that keeps its data by Django in PostgreSQL, within Django's transactions.

    `using` is the alias of the database. Guarantee: as that of `SqlSink` without tables; what a `DjangoOutbox` is given
    in a handler is in the same transaction.
    """

    def __init__(
        self, name: str, choreography: Choreography, using: str = "default", *, from_now: bool = False
    ) -> None:
        super().__init__(name, choreography, from_now=from_now)
        self.own_database = partial(DjangoDatabase, self, using)

    def on(self, handler: H) -> H:
        """Register a handler for the events in its first parameter's type: `def placed(event: OrderPlaced) -> None`.

        `Meta`, as a second parameter, is what the log knows of the event. Raises: WiringError as `SqlSink.on` does.
        """
        where = f"handler {name_of(handler)} of inbox {self.name}"
        form = f"write `def {name_of(handler)}(event: EventA | EventB) -> None`"
        if inspect.iscoroutinefunction(handler):
            raise WiringError(f"{where}: Django's transactions are not async: {form}")
        hints = hints_of(handler, where, 2)
        first = next((hints.get(each.name) for each in positional(handler)), None)
        if first is None:
            raise WiringError(f"{where}: the events that it handles are read from its first parameter: {form}")
        meta, events = takes_meta(handler, 1, where), events_in([first], where, form)
        self._register(Handler(partial(_without_session, handler), tuple(events), False, meta, False), where)
        self._modules.add(handler.__module__)
        return handler


def _without_session(handler: Callable[..., Any], event: Event, _session: object, *meta: Meta) -> None:
    handler(event, *meta)


class DjangoDatabase(SinkDatabase):
    """The database of an inbox, by one of Django's connections.

    A handler that hangs is not given up, since its thread cannot be; the server ends its transaction once it stands still.
    """

    def __init__(self, sink: SqlSink, using: str) -> None:
        settings = connections[using].settings_dict
        if connections[using].vendor != "postgresql":
            raise WiringError(f"an inbox needs PostgreSQL, and {using} is {connections[using].vendor}")
        self.sink, self.schema = sink, None
        self.name = f"postgresql://{settings['HOST']}/{settings['NAME']}"
        self._using = using
        self._thread = ThreadPoolExecutor(1, "eventlib-inbox")  # Django's connections belong to threads

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """See `SinkDatabase.transaction`."""
        atomic = transaction.atomic(self._using, durable=True)
        try:
            await self.do(self._begin, atomic)
            try:
                yield cast("AsyncSession", _Session(self))
            except BaseException as error:
                await self.do(atomic.__exit__, type(error), error, error.__traceback__)
                raise
            await self.do(atomic.__exit__, None, None, None)
        except (OSError, DatabaseError, InterfaceError) as error:
            self.refuse(error)
            raise

    def _begin(self, atomic: Any) -> None:
        connections[self._using].close_if_unusable_or_obsolete()
        atomic.__enter__()
        try:
            self._execute(f"SET LOCAL idle_in_transaction_session_timeout = {LONGEST_S * 1000:.0f}", None)
        except BaseException:
            atomic.__exit__(*sys.exc_info())
            raise

    def _execute(self, sql: str, values: Mapping[str, Any] | None) -> tuple[int, Sequence[Any]]:
        with connections[self._using].cursor() as cursor:
            cursor.execute(sql, values)
            if not cursor.description:
                return cursor.rowcount, []
            row = namedtuple("row", [each[0] for each in cursor.description])  # type: ignore[misc]
            return cursor.rowcount, [row(*each) for each in cursor.fetchall()]

    async def do(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do something in the thread that has Django's connection."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))

    async def rows(self, session: AsyncSession, statement: TextClause, values: Mapping[str, Any]) -> Sequence[Any]:
        """See `SinkDatabase.rows`."""
        del session
        return (await self.do(self._execute, _sql(statement), values))[1]

    async def changed(self, session: AsyncSession, statement: TextClause, values: Mapping[str, Any]) -> int:
        """See `SinkDatabase.changed`."""
        del session
        return (await self.do(self._execute, _sql(statement), values))[0]

    @asynccontextmanager
    async def alone(self, session: AsyncSession) -> AsyncIterator[None]:
        """See `SinkDatabase.alone`."""
        del session
        savepoint = transaction.atomic(self._using)
        await self.do(savepoint.__enter__)
        try:
            yield
            await self.do(self._execute, "SET CONSTRAINTS ALL IMMEDIATE", None)
        except BaseException as error:
            await self.do(savepoint.__exit__, type(error), error, error.__traceback__)
            raise
        await self.do(savepoint.__exit__, None, None, None)

    def refuse(self, error: Exception) -> None:
        """See `SinkDatabase.refuse`."""
        lost = isinstance(error, OSError | InterfaceError | InternalError | OperationalError)
        self.refuse_as(error, error.__cause__ or error, is_lost=lost)

    async def create(self) -> None:
        """See `SinkDatabase.create`."""
        async with self.transaction():
            await self.do(self._execute, "SELECT pg_advisory_xact_lock(hashtext('eventlib_sinks'))", None)
            for table in OWN.sorted_tables:
                made = CreateTable(table, if_not_exists=True).compile(dialect=_POSTGRESQL)
                await self.do(self._execute, str(made), None)

    def _disconnect(self) -> None:
        connections[self._using].close()  # the thread's own

    async def close(self) -> None:
        """See `SinkDatabase.close`."""
        await self.do(self._disconnect)
        self._thread.shutdown()


class _Session:
    """What stands for SQLAlchemy's session where there is none: handlers have Django's connection."""

    def __init__(self, database: DjangoDatabase) -> None:
        self._database = database

    async def run_sync(self, work: Callable[[Any], T]) -> T:
        """See `AsyncSession.run_sync`."""
        return await self._database.do(work, self)

    def flush(self) -> None:
        """See `Session.flush`; Django's models write at once."""


def _sql(statement: TextClause) -> str:
    return str(statement.compile(dialect=_POSTGRESQL))
