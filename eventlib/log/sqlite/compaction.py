"""The compaction of a partition of an SQLite log: each key keeps its newest record."""

import sqlite3
from functools import partial

from eventlib.log.base import TOMBSTONES_KEPT
from eventlib.log.sqlite.batches import delete_records, keys, window
from eventlib.log.sqlite.format import IS_BATCH
from eventlib.log.sqlite.sealed import delete_rows, write_partitions
from eventlib.log.sqlite.state import MILLISECOND
from eventlib.log.sqlite.steps import STEP_RECORDS, Steps

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
