"""Puts events within a transaction of SQLAlchemy's, with a session or a connection, sync or async."""

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from eventlib.errors import WiringError
from eventlib.model.event import Event
from eventlib.outbox.rows import INSERT_SQL, STATEMENTS, Outbox
from eventlib.publication import Publication

_INSERT = text(INSERT_SQL.replace("%(", ":").replace(")s", ""))


class SqlAlchemyOutbox(Outbox):
    """The outbox of an application that keeps its data by SQLAlchemy in PostgreSQL.

    `puts` are the events that it may put, for `eventlib graph` and `check`; without them it may put any that is published.
    `name` is that of its relay.
    Guarantee: an event that is put reaches the log exactly once if its transaction commits, and never if it does not; those
    of a key reach it in the order of their commits. Change a key's own rows before you put its events, as `put` lets a
    session do: transactions that take the two in different orders can wait for each other, and PostgreSQL ends one of them.
    """

    def create(self, connection: Connection) -> None:
        """Make the table, where it is not there; for a migration, `TABLE_SQL` has the statements."""
        _refuse_other(connection)
        for statement in STATEMENTS:
            connection.exec_driver_sql(statement)

    def put(self, target: Session | Connection, *events: Event | Publication) -> None:
        """Put events within the transaction of a session, whose changes are flushed first, or of a connection.

        Raises: ContractError, and nothing is put, for what `rows_of` refuses, and for what is not among `puts`; WiringError
        on another database than PostgreSQL, and on a connection that commits by itself.
        """
        rows = self._rows(events)
        if isinstance(target, Session):
            target.flush()
        _refuse_other(target.connection() if isinstance(target, Session) else target)
        if rows:
            target.execute(_INSERT, rows)

    async def put_async(self, target: AsyncSession | AsyncConnection, *events: Event | Publication) -> None:
        """Put events as `put` does, within the transaction of an async session or connection."""
        if isinstance(target, AsyncSession):
            await target.run_sync(lambda session: self.put(session, *events))
        else:
            await target.run_sync(lambda connection: self.put(connection, *events))


def _refuse_other(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":
        raise WiringError(f"an outbox needs PostgreSQL, and this is {connection.dialect.name}")
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise WiringError("this connection commits each statement by itself: put events within a transaction")
