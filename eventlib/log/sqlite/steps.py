"""Work on one partition of an SQLite log beside its writers: in transactions of a few milliseconds, with pauses."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from eventlib.log.sqlite.file import LogFile
from eventlib.log.sqlite.state import PartitionState

T = TypeVar("T")

STEP_RECORDS = 1_000
"""How many records a step looks at, or drops, at most."""


class Steps:
    """Work on one partition, in transactions of a few milliseconds with a pause after each."""

    def __init__(self, file: LogFile, state: PartitionState, breath: float) -> None:
        self._file = file
        self._state = state
        self._breath = breath

    async def _step(self, act: Callable[[sqlite3.Connection], T]) -> T:
        result = await self._file.write(act)
        # Relative to the transaction's own time, not the wait for the lock: contention must not prolong the pause.
        await asyncio.sleep(max(0.001, self._file.held_s * self._breath))
        return result
