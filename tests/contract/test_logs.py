"""Every log of this library passes the public suite."""

import sqlite3
from contextlib import closing
from pathlib import Path

from eventlib.log.base import Log
from eventlib.log.memory import MemoryLog
from eventlib.log.record import Record
from eventlib.log.sqlite.log import SqliteLog
from eventlib.testing.log_contract import LogContract
from eventlib.testing.log_fixture import flipped


class TestMemoryLog(LogContract):
    durable = False
    can_be_damaged = False

    async def open_log(self, place: Path) -> Log:
        return MemoryLog(f"memory://{place.name}")


class TestSqliteLog(LogContract):
    async def open_log(self, place: Path) -> Log:
        return await SqliteLog.open(place / "log.db")

    async def change(self, written: Record, bits: int) -> None:
        with closing(sqlite3.connect(self.place / "log" / "log.db")) as connection:
            values = (flipped(written.value or b"", bits), written.value)
            assert connection.execute("UPDATE records SET value = ? WHERE value = ?", values).rowcount == 1
            connection.commit()
