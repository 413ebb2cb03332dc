"""One process's handle on an SQLite log: the connection, and how transactions begin and end.

All of it runs in the event loop's thread. A transaction begins and ends between two awaits, so that no other code in
this process sees it half done; waiting for another process yields to the loop.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from eventlib.errors import LogReplaced, LogUnavailable
from eventlib.ground.private_files import create_private, make_private_directory
from eventlib.log.sqlite.connection import connect, identity, log_id_in, refuse_cut_off
from eventlib.log.sqlite.errors import damaged, explained, is_busy, read_only, replaced
from eventlib.log.sqlite.high_water import HighWaterMark, mark_beside, missing_offsets, now_another, tail_lost
from eventlib.log.sqlite.schema import prepare
from eventlib.log.sqlite.sealed import meta_value
from eventlib.log.sqlite.small_tables import SmallTables
from eventlib.log.sqlite.state import PartitionState, SqliteOptions

T = TypeVar("T")
_NOTHING_YET = -1
_RETRY_S = 0.0005  # the event loop rounds up to a millisecond

_log = logging.getLogger("eventlib.log")


class LogFile(SmallTables):
    """The connection, and how transactions begin and end; the small tables are reloaded when another process has committed."""

    def __init__(self, path: Path, connection: sqlite3.Connection, log_id: str, options: SqliteOptions) -> None:
        super().__init__(path, connection)
        self.log_id = log_id
        self.options = options
        self.held_s = 0.0
        self.closed = False
        self._mark = HighWaterMark(path, log_id)
        self._version = _NOTHING_YET
        self._is_fresh = False
        named = [(each, identity(each)) for each in (path.with_name(f"{path.name}-wal"), path)]
        self._lost: LogReplaced | None = None
        self._names = [(each, before) for each, before in named if before is not None]
        self._changed_ns = 0
        # An accepted loss gives a log another id, which is in the write-ahead log first.
        self._logs_in_it = {None, log_id, log_id_in(path)}

    @classmethod
    async def open(cls, path: Path, options: SqliteOptions) -> "LogFile":
        """Open the file, or create it. Raises: LogCorrupt, LogVersionMismatch, LogReadOnly, LogUnavailable."""
        try:
            make_private_directory(path.parent)
        except OSError as error:
            raise read_only(path, f"its directory cannot be created: {error}") from error

        def attempt() -> "LogFile":
            refuse_cut_off(path)
            create_private(path)
            mark = mark_beside(path)  # before the log: other processes write meanwhile, and raise it
            connection = connect(path, options.max_bytes)
            try:
                file = cls(path, connection, prepare(connection, path), options)
                file.catch_up()
            except BaseException:
                connection.close()
                raise
            if file.offsets >= 0 and (missing := missing_offsets(mark, file.log_id, file.offsets)):
                _log.error("%s", tail_lost(path, missing))
            return file

        return await _retry_while_busy(attempt, path, options.busy_s)

    async def read(
        self,
        sql: str,
        values: Mapping[str, object] | Sequence[object] = (),
        take: Callable[[sqlite3.Cursor], list[Any]] = sqlite3.Cursor.fetchall,
    ) -> list[Any]:
        """Return what `take` takes of a query's rows; it leaves none unread, or closes the cursor.

        No transaction stays open, so that no reader blocks a checkpoint.
        """

        def attempt() -> list[Any]:
            with well_formed(self.path):
                return take(self.open_connection().execute(sql, values))

        return await _retry_while_busy(attempt, self.path, self.options.busy_s)

    async def refresh(self, *, again: bool = False) -> None:
        """Load what other processes have committed, once in each iteration of the event loop, unless `again`.

        This process cannot have heard of what they commit meanwhile before the next one.
        """
        if self._is_fresh and self._version != _NOTHING_YET and not again and not self.closed:
            return
        await _retry_while_busy(self.catch_up, self.path, self.options.busy_s)
        self._is_fresh = True
        asyncio.get_running_loop().call_soon(self._grow_old)

    async def reload(self) -> None:
        """Reload everything, also what this process has changed."""
        self._version = _NOTHING_YET
        await self.refresh()

    async def write(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` in its own transaction. Raises: LogUnavailable after `busy_s`; the errors of `explained`."""

        def attempt() -> T:
            self.begin()
            return self.finish(act)

        return await _retry_while_busy(attempt, self.path, self.options.busy_s)

    def begin(self) -> None:
        """Begin a write transaction, and load what other processes have committed before it.

        Raises: TailLost; sqlite3.Error, including busy errors.
        """
        self.open_connection().execute("BEGIN IMMEDIATE")
        try:
            self.catch_up()
            self._refuse_lost_tail()
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise

    def finish(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Run `act` in the transaction that was begun, and commit it; roll back on any error."""
        began = perf_counter()
        try:
            result = act(self.connection)
            self.connection.execute("COMMIT")
            self.refuse_replaced()
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self._version = _NOTHING_YET  # what `act` has cached about the file does not hold
            raise
        self._mark.raise_to(self.offsets)
        self.held_s = perf_counter() - began
        return result

    def _grow_old(self) -> None:
        self._is_fresh = False

    def catch_up(self) -> None:
        """Reload the small tables when another process has committed since. Raises: sqlite3.Error."""
        version = self.open_connection().execute("PRAGMA data_version").fetchone()[0]
        if version == self._version:
            return
        with well_formed(self.path):
            self._reload_as_of_one_moment()
        self._version = version

    def refuse_replaced(self) -> None:
        """Refuse a file, or a write-ahead log, that has lost its name: no other process would find its records.

        Raises: LogReplaced.
        """
        for name, before in self._names:
            try:
                there = os.stat(name)  # noqa: PTH116  asked for each commit, a third of what Path.stat takes
                is_same = there.st_ino == before[0] and there.st_dev == before[1]
                if is_same and name is self.path and there.st_mtime_ns != self._changed_ns:
                    is_same = self._still_has_this_log()
                    self._changed_ns = there.st_mtime_ns
            except OSError:
                is_same = False
            if not is_same:
                self._lost = replaced(name)
                raise self._lost

    def _still_has_this_log(self) -> bool:
        """Tell whether the file itself has this log still: it changes with checkpoints, and when another is copied over it.

        The connection cannot tell: it reads the newest pages from the write-ahead log.
        """
        return log_id_in(self.path) in self._logs_in_it

    def _refuse_lost_tail(self) -> None:
        if self.offsets >= 0 and (missing := self._mark.missing(self.offsets)):
            raise tail_lost(self.path, missing)

    def _reload_as_of_one_moment(self) -> None:
        if self.connection.in_transaction:
            self._reload()
        else:
            self.connection.execute("BEGIN")
            try:
                self._reload()
            finally:
                _end_reading(self.connection)

    def _reload(self) -> None:
        if meta_value(self.connection, "log_id") != self.log_id:
            raise now_another(self.path)
        self.learn(by_others=self._version != _NOTHING_YET)

    def open_connection(self) -> sqlite3.Connection:
        """Return the connection. Raises: LogUnavailable when this process has closed the log; LogReplaced."""
        if self.closed:
            raise LogUnavailable(f"the log {self.path} was closed by this process; open it again to use it")
        if self._lost is not None:
            raise self._lost
        return self.connection

    async def known_partition(self, topic: str, partition: int) -> PartitionState:
        """Return the state of a partition, also one that another process just created. Raises: ContractError."""
        if (topic, partition) not in self.partitions:
            await self.refresh()
        return self.partition(topic, partition)

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self.connection.close()
        self._mark.close()


@contextmanager
def well_formed(path: Path) -> Iterator[None]:
    """Raise LogCorrupt where SQLite reports no error, but no log writes such content."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, f"it has content that no log writes: {error!r}") from error


async def _retry_while_busy(attempt: Callable[[], T], path: Path, busy_s: float) -> T:
    """Retry `attempt` while another process holds the lock, yielding to the event loop in between."""
    deadline: float | None = None
    while True:
        try:
            return attempt()
        except sqlite3.Error as error:
            now = asyncio.get_running_loop().time()
            deadline = deadline or now + busy_s
            if not is_busy(error) or now >= deadline:
                raise explained(error, path) from error
        except UnicodeDecodeError as error:  # SQLite's own message quotes bytes that are not UTF-8
            raise damaged(path, str(error)) from error
        await asyncio.sleep(_RETRY_S)


def _end_reading(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # some errors end it, and are the ones to report
        connection.execute("COMMIT")
