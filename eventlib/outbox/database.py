"""The outbox's table, as the relay reads and empties it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import psycopg

from eventlib.errors import LogUnavailable, WiringError
from eventlib.ground.postgres import ANSWERS_S, connection_to
from eventlib.outbox.rows import OutboxRow

T = TypeVar("T")

_COLUMNS = ", ".join(f"waiting.{each.name}" for each in fields(OutboxRow))
# A row that cannot be an event holds what was put after it under its key.
_TAKE = f"""
SELECT {_COLUMNS} FROM eventlib_outbox AS waiting WHERE waiting.error IS NULL AND NOT EXISTS (
  SELECT FROM eventlib_outbox AS held
  WHERE held.error IS NOT NULL AND held.topic = waiting.topic AND held.key = waiting.key AND held.id < waiting.id
) ORDER BY waiting.id LIMIT %s
"""  # noqa: S608  constants
_SETTLE = "DELETE FROM eventlib_outbox WHERE id = ANY(%s)"
_HOLD = "UPDATE eventlib_outbox SET error = %s WHERE id = %s"
_RETRY = "UPDATE eventlib_outbox SET error = NULL WHERE error IS NOT NULL AND (%s::bigint IS NULL OR id = %s)"
_COUNTS = """
SELECT count(*), count(error), coalesce(extract(epoch FROM clock_timestamp() - min(put_at)), 0) FROM eventlib_outbox
"""
_HELD = "SELECT id, type, key, error FROM eventlib_outbox WHERE error IS NOT NULL ORDER BY id LIMIT %s"


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A row that cannot be an event; what was put later under its key waits for it."""

    id: int
    type: str
    key: str | None
    error: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many rows wait, how many of them are held, and the age of the oldest (seconds)."""

    rows: int
    held: int
    oldest_s: float


class OutboxTable:
    """An outbox in PostgreSQL. A connection that fails is opened again by the next call.

    Each call raises LogUnavailable while the database does not answer, and WiringError when it has no outbox.
    """

    def __init__(self, url: str) -> None:
        self.name, self._conninfo = connection_to(url, "eventlib outbox")
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    async def take(self, limit: int) -> list[OutboxRow]:
        """Return the first rows that may go to the log; for each key a prefix of what has been committed."""
        return [OutboxRow(*row) for row in await self._rows(_TAKE, (limit,))]

    async def settle(self, ids: Sequence[int]) -> None:
        """Remove rows whose events are on the log."""
        await self._done(_SETTLE, (list(ids),))

    async def hold(self, row: OutboxRow, error: str) -> None:
        """Note why a row cannot be an event."""
        await self._done(_HOLD, (error, row.id))

    async def retry(self, row_id: int | None) -> int:
        """Let a held row, or all, be tried again; return how many there are."""
        return await self._done(_RETRY, (row_id, row_id))

    async def waiting(self) -> Waiting:
        """Count what waits."""
        ((rows, held, oldest),) = await self._rows(_COUNTS, ())
        return Waiting(rows, held, float(oldest))

    async def held(self, limit: int) -> list[HeldRow]:
        """Return the first held rows."""
        return [HeldRow(*row) for row in await self._rows(_HELD, (limit,))]

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _rows(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return await self._asked(statement, values, lambda cursor: cursor.fetchall())

    async def _done(self, statement: str, values: Sequence[Any]) -> int:
        async def counted(cursor: psycopg.AsyncCursor[tuple[Any, ...]]) -> int:
            return cursor.rowcount

        return await self._asked(statement, values, counted)

    async def _asked(
        self,
        statement: str,
        values: Sequence[Any],
        answer: Callable[["psycopg.AsyncCursor[tuple[Any, ...]]"], Awaitable[T]],
    ) -> T:
        try:
            async with asyncio.timeout(ANSWERS_S):
                connection = await self._opened()
                return await answer(await connection.execute(statement, values))
        except psycopg.errors.UndefinedTable as error:
            raise WiringError(
                f"{self.name} has no table eventlib_outbox: make it with the statements that `eventlib outbox table` prints"
            ) from error
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidPassword) as error:
            raise WiringError(f"{self.name} refuses: {str(error).strip()}") from error
        except (psycopg.Error, TimeoutError, OSError) as error:
            await self._drop()
            raise LogUnavailable(f"the outbox at {self.name} does not answer: {_reason(error)}") from error
        except asyncio.CancelledError:
            await self._drop()  # its answer would come as that to another question
            raise

    async def _opened(self) -> "psycopg.AsyncConnection[tuple[Any, ...]]":
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(**self._conninfo, autocommit=True)
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _reason(error: Exception) -> str:
    return f"no answer within {ANSWERS_S:.0f} s" if isinstance(error, TimeoutError) else str(error).strip()
