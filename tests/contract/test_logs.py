"""Every log of this library passes the public suite."""

from pathlib import Path

from eventlib.log.memory import MemoryLog
from eventlib.log.port import Log
from eventlib.log.sqlite import SqliteLog
from eventlib.testing.log_contract import LogContract


class TestMemoryLog(LogContract):
    durable = False

    async def open_log(self, place: Path) -> Log:
        return MemoryLog(f"memory://{place.name}")


class TestSqliteLog(LogContract):
    async def open_log(self, place: Path) -> Log:
        return await SqliteLog.open(place / "log.db")
