"""Group commit: what many coroutines append within one pass of the event loop becomes one transaction."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from eventlib.errors import ContractError, EventlibError
from eventlib.log.port import Claim, Record, TopicPartition
from eventlib.log.rules import ownership_lost, too_large
from eventlib.log.sqlite_errors import damaged, explained, is_about_the_record, is_busy, unavailable
from eventlib.log.sqlite_file import LogFile
from eventlib.log.sqlite_schema import encode_headers
from eventlib.log.sqlite_state import PartitionState

_INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MOVE = "UPDATE partitions SET next_offset = ?, newest_at = ? WHERE number = ?"
_MILESTONE = "INSERT OR REPLACE INTO milestones VALUES (?, ?)"
_MILESTONE_BITS = 10
_GROUP_RECORDS = 5_000  # a larger group would hold the loop up for longer than it saves
_RETRY_S = 0.0005
_GAP_S = 0.001
_STREAK_S = 0.003
_OTHERS_ACTIVE_S = 1.0


class _Entry:
    """One caller's records, and the future that it waits for."""

    __slots__ = ("claim", "future", "records")

    def __init__(self, records: Sequence[Record], claim: Claim | None, future: "asyncio.Future[list[int]]") -> None:
        self.records = records
        self.claim = claim
        self.future = future


class _Group:
    """What one transaction is going to write."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.rows: list[tuple[Any, ...]] = []
        self.before = dict[PartitionState, tuple[int, int]]()
        self.accepted: list[tuple[_Entry, list[int]]] = []

    def add(self, entry: _Entry) -> None:
        """Give an entry's records their offsets, or refuse it alone, before anything of it is written."""
        claim = entry.claim
        if claim is not None:
            owner = self._file.owners.get((claim.service, claim.partition))
            if owner is None or owner.epoch != claim.epoch:
                raise ownership_lost(claim, 0 if owner is None else owner.epoch)
        states = list[PartitionState]()
        for record in entry.records:
            state = self._file.partitions.get(record[:2]) or self._file.partition(record[0], record[1])
            if record[5] is not None and len(record[5]) > state.max_event_bytes:
                raise too_large(record, state.topic)
            states.append(state)
        self.accepted.append((entry, self._place(entry.records, states)))

    def _place(self, records: Sequence[Record], states: Sequence[PartitionState]) -> list[int]:
        rows, before, offsets = self.rows, self.before, list[int]()
        for state, record in zip(states, records, strict=True):
            if state not in before:
                before[state] = (state.end, state.newest_at)
            offset = state.end
            state.end = offset + 1
            if record[3] > state.newest_at:  # noqa: PLR1730  max() is a call per record on the hot path
                state.newest_at = record[3]
            rows.append((state.base + offset, *record[3:14], encode_headers(record[14]) if record[14] else None))
            offsets.append(offset)
        return offsets

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the rows, and where their partitions end now."""
        connection.executemany(_INSERT, self.rows)
        connection.executemany(_MOVE, [(state.end, state.newest_at, state.number) for state in self.before])
        milestones = [
            (state.base + state.end, state.newest_at)
            for state, (end, _) in self.before.items()
            if end >> _MILESTONE_BITS != state.end >> _MILESTONE_BITS
        ]
        if milestones:
            connection.executemany(_MILESTONE, milestones)

    def forget(self) -> None:
        """Put back where the partitions ended: nothing was written."""
        for state, (end, newest_at) in self.before.items():
            state.end, state.newest_at = end, newest_at

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that have new records."""
        return {(state.topic.name, state.partition) for state in self.before}


class Appender:
    """Collects appends, and commits them in groups."""

    def __init__(self, file: LogFile, appended: Callable[[set[TopicPartition]], None]) -> None:
        self._file = file
        self._appended = appended
        self._pending = deque[_Entry]()
        self._scheduled: asyncio.Handle | None = None
        self._waiting_since: float | None = None
        self._streak_began = 0.0
        self._committed = 0.0
        self.commits = 0

    def append(self, records: Sequence[Record], claim: Claim | None) -> "asyncio.Future[list[int]]":
        """Put records into the next group; the future has their offsets when they are durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[int]] = loop.create_future()
        self._pending.append(_Entry(records, claim, future))
        if self._scheduled is None:
            self._scheduled = self._next_flush(loop)
        return future

    def close(self) -> None:
        """Refuse what was not written yet."""
        if self._scheduled is not None:
            self._scheduled.cancel()
        error = unavailable(self._file.path, "it was closed before this was written")
        self._fail([*self._pending], error)
        self._pending.clear()

    def _next_flush(self, loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
        # A process that commits without a pause would keep the others out: SQLite's lock has no queue. So it steps
        # back for a millisecond now and then, but only while others do append.
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
            self._fail(self._next_group(), error)
        except UnicodeDecodeError as error:  # SQLite's own message quotes bytes that are no text
            self._fail(self._next_group(), damaged(self._file.path, str(error)))
        else:
            self._waiting_since = None
            self._commit(self._next_group())
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
            self._fail(self._next_group(), explained(error, self._file.path))

    def _next_group(self) -> list[_Entry]:
        entries, size = list[_Entry](), 0
        while self._pending and size < _GROUP_RECORDS:
            entry = self._pending.popleft()
            if not entry.future.done():  # its caller may have been cancelled
                entries.append(entry)
                size += len(entry.records)
        return entries

    def _commit(self, entries: list[_Entry]) -> None:
        """Commit a group in the transaction that was begun."""
        group = _Group(self._file)
        try:
            self._file.finish(lambda connection: self._write(group, entries, connection))
        except (sqlite3.Error, ValueError, TypeError, OverflowError, AttributeError) as error:
            group.forget()
            self._refused(entries, error)
        except BaseException as error:
            group.forget()
            self._fail(entries, error)  # nobody may wait for ever, whatever this is
            raise
        else:
            self.commits += 1
            for entry, offsets in group.accepted:
                entry.future.set_result(offsets)
            self._appended(group.partitions)

    def _write(self, group: _Group, entries: list[_Entry], connection: sqlite3.Connection) -> None:
        for entry in entries:
            try:
                group.add(entry)
            except EventlibError as error:
                entry.future.set_exception(error)
        if group.rows:
            group.write(connection)

    def _refused(self, entries: list[_Entry], error: Exception) -> None:
        """Fail a group; when one record's content is to blame, let the others have another try without it."""
        left = [entry for entry in entries if not entry.future.done()]
        if isinstance(error, sqlite3.Error) and not is_about_the_record(error):
            self._fail(left, explained(error, self._file.path))
        elif len(left) == 1:
            topics = ", ".join(sorted({record.topic for record in left[0].records}))
            sentence = f"a record for {topics} cannot be stored ({error}); nothing of its append was written"
            self._fail(left, ContractError(sentence))
        else:
            for entry in left:
                self._alone(entry)

    def _alone(self, entry: _Entry) -> None:
        try:
            self._file.begin()
        except sqlite3.Error as error:
            self._fail([entry], explained(error, self._file.path))
        else:
            self._commit([entry])

    def _fail(self, entries: list[_Entry], error: BaseException) -> None:
        for entry in entries:
            if not entry.future.done():
                entry.future.set_exception(error)
