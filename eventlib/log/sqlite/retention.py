"""The upkeep of an SQLite log, with its retention: in steps of a few milliseconds, so that appends are not blocked.

A partition is compacted when it has at least as many new records as the last compaction left, so that the cost per
record is constant however long the log is. Retention counts each record once.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice

from eventlib.errors import EventlibError
from eventlib.ground.tasks import cancelled
from eventlib.log.base import TOMBSTONES_KEPT, TopicPartition
from eventlib.log.sqlite.batches import delete_records, delete_to, keys, sizes, window
from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.pack import Packed, Packing
from eventlib.log.sqlite.schema import archived_ends
from eventlib.log.sqlite.sealed import delete_rows, unread_from, write_partitions
from eventlib.log.sqlite.state import MILLISECOND, PartitionState
from eventlib.log.sqlite.steps import STEP_RECORDS, Steps

_log = logging.getLogger("eventlib.log")

_COUNT_RECORDS = 2_000
_RETAIN_EVERY_RECORDS = 1_000
RETAIN_EVERY_S = 60.0
_PAUSE_FACTOR = 2.0  # in the background, pause this many times a step's own duration after it

_FIRST = "SELECT position FROM records WHERE position >= ? AND position < ? ORDER BY position LIMIT ?"
_DELETE_MILESTONES = "DELETE FROM milestones WHERE position >= ? AND position < ?"


class Upkeep:
    """Drops records past their retention, in steps; runs by itself in every process that appends."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._one_at_a_time = asyncio.Lock()
        self._due = set[PartitionState]()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def appended(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark the partitions that have grown enough for upkeep."""
        for partition in partitions:
            state = self._file.partitions[partition]
            topic = state.topic
            if topic.compacted:
                enough = max(self._file.options.compact_floor, state.kept)
            elif topic.retention is not None or topic.retention_bytes is not None:
                enough = _RETAIN_EVERY_RECORDS
            else:
                continue
            if state.end - state.clean_to >= enough:
                self._due.add(state)
                self._wake.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name=f"upkeep of {self._file.path.name}")

    async def everything(self) -> None:
        """Compact and retain every partition now."""
        await self._file.refresh()
        await self._look_after([*self._file.partitions.values()], breath=0.5)

    async def pack(self, progress: Callable[[int], None]) -> Packed:
        """Pack the rows of every partition as batches."""
        done = Packed()
        await self._file.refresh()
        async with self._one_at_a_time:
            for state in [*self._file.partitions.values()]:
                await Packing(self._file, state, breath=0.5).run(done, progress)
        return done

    async def delete(self, topic: str) -> None:
        """Delete a topic and all its records; only its partitions' ends stay."""
        async with self._one_at_a_time:
            for state in [state for state in self._file.partitions.values() if state.topic.name == topic]:
                await _Deletion(self._file, state, breath=0.5).run()
            await self._file.write(lambda connection: connection.execute("DELETE FROM topics WHERE name = ?", (topic,)))
            self._file.learn_topics()

    async def close(self) -> None:
        """Stop; unfinished work is repeated another time."""
        await cancelled(self._task)

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETAIN_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            aging = {state for state in self._file.partitions.values() if state.topic.retention is not None}
            due, self._due = self._due | aging, set()
            try:
                await self._look_after(due, breath=_PAUSE_FACTOR)
            except EventlibError as error:
                _log.warning("upkeep of the log failed, and is retried later: %s", error)
            await asyncio.sleep(1.0)

    async def _look_after(self, states: Iterable[PartitionState], breath: float) -> None:
        async with self._one_at_a_time:
            for state in states:
                if state.topic.compacted:
                    await Compaction(self._file, state, breath).run()
                elif state.topic.retention is not None or state.topic.retention_bytes is not None:
                    await _Retention(self._file, state, breath).run()


class _Deletion(Steps):
    """Drops everything, from the front: after a crash the topic is only shorter, and can be deleted again."""

    async def run(self) -> None:
        while await self._step(self._drop):
            pass

    def _drop(self, connection: sqlite3.Connection) -> bool:
        state = self._state
        base, top = state.base, state.base + state.end
        dropped = delete_rows(connection, state, _FIRST, (base, top, STEP_RECORDS))
        state.dense_from = state.end
        if dropped < STEP_RECORDS:
            connection.execute(_DELETE_MILESTONES, (base, top + 1))
            state.clean_to, state.kept, state.kept_bytes = state.end, 0, 0
        write_partitions(connection, [state])
        return dropped == STEP_RECORDS


class _Retention(Steps):
    """Counts new records, and drops from the front what exceeds the retention time or size."""

    async def run(self) -> None:
        while await self._step(self._count):
            pass
        while await self._step(self._drop):
            pass

    def _count(self, connection: sqlite3.Connection) -> bool:
        state = self._state
        found = sizes(connection, state.base + state.clean_to, state.base + state.end)
        rows = [*islice(found, _COUNT_RECORDS)]
        more = len(rows) == _COUNT_RECORDS
        clean_to = rows[-1][0] + 1 - state.base if more else state.end
        kept_bytes = state.kept_bytes + sum(size for *_, size in rows)
        if (clean_to, kept_bytes) != (state.clean_to, state.kept_bytes):
            state.clean_to, state.kept_bytes = clean_to, kept_bytes
            write_partitions(connection, [state])
        return more

    def _drop(self, connection: sqlite3.Connection) -> bool:
        state, topic = self._state, self._state.topic
        oldest = None if topic.retention is None else self._file.options.clock() - topic.retention // MILLISECOND
        archived = archived_ends(connection)
        top = state.clean_to if archived is None else min(state.clean_to, archived.get(state.number, 0))
        unread = unread_from(connection, state.number, lambda service: f"{service}.journal" in self._file.topics)
        top = top if unread is None else min(top, unread)
        left, dropped, last = state.kept_bytes, 0, 0
        for position, recorded_at, size in islice(sizes(connection, state.base, state.base + top), STEP_RECORDS):
            too_old = oldest is not None and recorded_at < oldest
            too_much = topic.retention_bytes is not None and left > topic.retention_bytes
            if not (too_old or too_much):
                break
            left -= size
            dropped, last = dropped + 1, position
        if dropped:
            delete_to(connection, state, last)
            connection.execute(_DELETE_MILESTONES, (state.base, last))
            state.dense_from = max(state.dense_from, last + 1 - state.base)
            state.kept_bytes = left
            write_partitions(connection, [state])
        return dropped == STEP_RECORDS


_CLEAR = (
    "CREATE TEMP TABLE IF NOT EXISTS newest (key BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TEMP TABLE IF NOT EXISTS ended (position INTEGER PRIMARY KEY)",
    "CREATE TEMP TABLE IF NOT EXISTS step (position INTEGER PRIMARY KEY, key BLOB NOT NULL, ended INTEGER NOT NULL)",
    "CREATE TEMP TABLE IF NOT EXISTS keep (position INTEGER PRIMARY KEY, key BLOB NOT NULL)",
    "DELETE FROM temp.newest",
    "DELETE FROM temp.ended",
)
_ROWS = """
INSERT INTO temp.step SELECT position, key, value IS NULL AND recorded_at < ? FROM records
WHERE position >= ? AND position < ? AND key IS NOT NULL
"""
# A step runs in SQL: a Python loop over its records would cost ten times as much.
_STEP = (
    """INSERT INTO temp.keep SELECT max(position), key FROM temp.step
    WHERE key NOT IN (SELECT key FROM temp.newest) GROUP BY key""",
    "INSERT INTO temp.newest SELECT key FROM temp.keep",
)
_OLDER = "SELECT position FROM temp.step EXCEPT SELECT position FROM temp.keep"
_ENDED = """
INSERT INTO temp.ended SELECT step.position FROM temp.step JOIN temp.keep USING (position) WHERE ended AND position < ?
"""
_KEPT = "SELECT count(*) FROM temp.keep"
_NEXT_STEP = ("DELETE FROM temp.step", "DELETE FROM temp.keep")
_KEYLESS = f"""
SELECT count(*) FROM records WHERE position >= ? AND position < ? AND key IS NULL AND NOT {IS_BATCH}
"""  # noqa: S608  a constant
_ENDED_FIRST = f"SELECT position FROM temp.ended ORDER BY position LIMIT {STEP_RECORDS}"  # noqa: S608  a constant


class Compaction(Steps):
    """Runs from the newest record to the oldest: drops every record whose key was already seen.

    The keys seen are in a temporary table, which SQLite keeps on disk when it is large. Old tombstones go last, and
    only those that were already alone at an earlier compaction: a consumer that read an older value of the key also
    reads the tombstone.
    """

    async def run(self) -> None:
        """Compact the partition."""
        state = self._state
        base, end, clean_to = state.base, state.end, state.clean_to
        await self._step(self._begin)
        kept = (await self._file.read(_KEYLESS, (base, base + end)))[0][0] if end else 0
        top: int | None = base + end
        while top is not None:
            top, step_kept = await self._step(partial(self._drop_older, top, base + clean_to))
            kept += step_kept
        while dropped := await self._step(self._drop_tombstones):
            kept -= dropped
        await self._step(partial(self._end, end, kept))

    def _begin(self, connection: sqlite3.Connection) -> None:
        for statement in _CLEAR:
            connection.execute(statement)
        self._state.dense_from = self._state.end
        write_partitions(connection, [self._state])

    def _end(self, end: int, kept: int, connection: sqlite3.Connection) -> None:
        self._state.clean_to, self._state.kept = end, kept
        write_partitions(connection, [self._state])

    def _drop_older(self, top: int, clean: int, connection: sqlite3.Connection) -> tuple[int | None, int]:
        oldest_tombstone = self._file.options.clock() - TOMBSTONES_KEPT // MILLISECOND
        for statement in _NEXT_STEP:
            connection.execute(statement)
        lowest, batches = window(connection, self._state.base, top, STEP_RECORDS)
        connection.execute(_ROWS, (oldest_tombstone, self._state.base if lowest is None else lowest, top))
        kept = sum([_step_into(connection, batch, oldest_tombstone) for batch in batches])
        for statement in _STEP:
            connection.execute(statement)
        (delete_records if batches else delete_rows)(connection, self._state, _OLDER)
        write_partitions(connection, [self._state])
        connection.execute(_ENDED, (clean,))
        return lowest, kept + connection.execute(_KEPT).fetchone()[0]

    def _drop_tombstones(self, connection: sqlite3.Connection) -> int:
        dropped = delete_records(connection, self._state, _ENDED_FIRST)
        write_partitions(connection, [self._state])
        connection.execute(f"DELETE FROM temp.ended WHERE position IN ({_ENDED_FIRST})")  # noqa: S608  a constant
        return dropped


def _step_into(connection: sqlite3.Connection, batch: int, oldest_tombstone: int) -> int:
    """Take a batch's records into the step; return how many have no key."""
    found = [*keys(connection, batch)]
    rows = [(p, key, is_gone and at_ms < oldest_tombstone) for p, at_ms, key, is_gone in found if key is not None]
    connection.executemany("INSERT INTO temp.step VALUES (?, ?, ?)", rows)
    return len(found) - len(rows)
