"""Group commit: what is appended or enlisted within one iteration of the event loop becomes one transaction."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Coroutine, Sequence

from eventlib.errors import ContractError, EventlibError, LogReplaced, LogUnavailable
from eventlib.log.base import Batch, Claim, Share, TopicPartition
from eventlib.log.sqlite.batch import SqliteBatch
from eventlib.log.sqlite.errors import damaged, explained, is_about_the_record, is_busy, unavailable
from eventlib.log.sqlite.file import LogFile
from eventlib.model.record import Record

_GROUP_RECORDS = 5_000  # a larger group would block the loop for longer than it saves
_RETRY_S = 0.0005
_GAP_S = 0.001
_STREAK_S = 0.003
_OTHERS_ACTIVE_S = 1.0


class _Append(Share):
    """One caller's records, and the future that it awaits."""

    def __init__(self, records: Sequence[Record], claim: Claim | None, future: "asyncio.Future[list[int]]") -> None:
        self.future = future
        self._records = records
        self._claim = claim
        self._offsets: list[int] = []

    async def write(self, batch: Batch) -> None:
        if self._claim is not None:
            batch.enter(self._claim)
        self._offsets = await batch.append(self._records)

    def committed(self) -> None:
        self.future.set_result(self._offsets)

    def failed(self, error: Exception) -> None:
        if not isinstance(error, EventlibError):
            topics = ", ".join(sorted({record.topic for record in self._records}))
            error = ContractError(
                f"a record for {topics} cannot be stored ({error}); nothing of its append was written"
            )
        if not self.future.done():
            self.future.set_exception(error)


class _TornError(Exception):
    """A share failed after part of it was already in the group."""


class Appender:
    """Collects appends and shares, and commits them in groups."""

    def __init__(self, file: LogFile, appended: Callable[[set[TopicPartition]], None]) -> None:
        self._file = file
        self._appended = appended
        self._pending = deque[Share]()
        self._scheduled: asyncio.Handle | None = None
        self._waiting_since: float | None = None
        self._streak_began = 0.0
        self._committed = 0.0
        self.commits = 0

    def append(self, records: Sequence[Record], claim: Claim | None) -> "asyncio.Future[list[int]]":
        """Add records to the next group; the future resolves to their offsets when they are durable."""
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self.enlist(_Append(records, claim, future))
        return future

    def enlist(self, share: Share) -> None:
        """Add a share to the next group."""
        self._pending.append(share)
        if self._scheduled is None:
            self._scheduled = self._next_flush(asyncio.get_running_loop())

    def close(self) -> None:
        """Fail what was not written yet."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        self._fail_pending(unavailable(self._file.path, "it was closed before this was written"))

    def _next_flush(self, loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
        # A process that commits without a pause would starve the others: SQLite's lock has no queue. So it backs off
        # for a millisecond now and then, but only while other processes append.
        now = loop.time()
        if now - self._committed >= _GAP_S:
            self._streak_began = now
        if now - self._streak_began > _STREAK_S and now - self._file.others_appended_at < _OTHERS_ACTIVE_S:
            return loop.call_later(_GAP_S, self._flush)
        return loop.call_soon(self._flush)

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        self._scheduled = None
        try:
            self._file.begin()
        except sqlite3.Error as error:
            self._not_begun(error, loop)
        except EventlibError as error:
            self._fail_pending(error)
        except UnicodeDecodeError as error:  # SQLite's own message quotes bytes that are not UTF-8
            self._fail_pending(damaged(self._file.path, str(error)))
        else:
            self._waiting_since = None
            self._commit(self._pending)
            self._committed = loop.time()
        if self._pending and self._scheduled is None:
            self._scheduled = self._next_flush(loop)

    def _not_begun(self, error: sqlite3.Error, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._waiting_since = self._waiting_since or now
        if is_busy(error) and now - self._waiting_since < self._file.options.busy_s:
            self._scheduled = loop.call_later(_RETRY_S, self._flush)
        else:
            self._waiting_since = None
            self._fail_pending(explained(error, self._file.path))

    def _commit(self, pending: deque[Share]) -> None:
        """Commit a group of pending shares in the transaction that was begun."""
        group, taken = SqliteBatch(self._file), list[Share]()
        try:
            self._file.finish(lambda connection: self._write(group, pending, taken, connection))
        except (_TornError, sqlite3.Error, ValueError, TypeError, OverflowError, AttributeError) as error:
            group.forget()
            self._refused(taken, error)
        except LogReplaced as error:
            group.forget()
            for share in taken:
                share.failed(error)
        except BaseException as error:
            group.forget()
            for share in taken:
                share.failed(error if isinstance(error, Exception) else LogUnavailable(f"writer stopped: {error!r}"))
            raise  # every future is resolved first: no caller may wait forever
        else:
            self.commits += 1
            for share in taken:
                share.committed()
            self._appended(group.committed())

    def _write(
        self, group: SqliteBatch, pending: deque[Share], taken: list[Share], connection: sqlite3.Connection
    ) -> None:
        while pending and len(group) < _GROUP_RECORDS:
            share, before = pending.popleft(), len(group)
            if isinstance(share, _Append) and share.future.done():
                continue  # its caller was cancelled
            try:
                _run(share.write(group))
            except Exception as error:
                share.failed(error)
                if len(group) != before:
                    raise _TornError from error
            else:
                taken.append(share)
        if len(group):
            group.write(connection)

    def _refused(self, taken: list[Share], error: Exception) -> None:
        """Fail a group; when the content of one share is to blame, retry the others without it."""
        if isinstance(error, sqlite3.Error) and not is_about_the_record(error):
            for share in taken:
                share.failed(explained(error, self._file.path))
            return
        appends = [share for share in taken if isinstance(share, _Append)]
        for share in taken:
            if share not in appends:  # a share cannot write twice
                share.failed(unavailable(self._file.path, "another append in its transaction was refused"))
        if len(taken) == len(appends) == 1 and not isinstance(error, _TornError):
            appends[0].failed(error)
            return
        for append in appends:
            self._alone(append)

    def _alone(self, append: _Append) -> None:
        try:
            self._file.begin()
        except sqlite3.Error as error:
            append.failed(explained(error, self._file.path))
        else:
            self._commit(deque([append]))

    def _fail_pending(self, error: Exception) -> None:
        while self._pending:
            self._pending.popleft().failed(error)


def _run(writing: Coroutine[None, None, None]) -> None:
    """Run a coroutine that awaits only a group, which never suspends it."""
    try:
        writing.send(None)
    except StopIteration:
        return
    writing.close()
    raise RuntimeError("a share awaited something other than its batch")
