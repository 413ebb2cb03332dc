"""Run a sink beside a test, and compare its rows with a fold of the log."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import Engine, text

from eventlib import EventLog
from eventlib.errors import TerminalError
from eventlib.sinks import SqlSink
from eventlib.sinks.applying import Sinking, SinkRunner
from eventlib.sinks.consuming import ObserveApplied
from eventlib.sinks.database import SinkDatabase
from tests.integration.outbox_app import COUNTERS, Counted
from tests.integration.sink_app import totals

NAMED = "tests.integration.sink_app:totals"
LONGEST_S = 60


@dataclass
class Running:
    """A sink that runs, and what it has ended with."""

    runner: SinkRunner
    task: "asyncio.Task[None]"

    @property
    def applied(self) -> int:
        if self.task.done():
            self.task.result()
        return self.runner.applied

    async def end(self) -> None:
        """Wait until it ends by itself."""
        async with asyncio.timeout(LONGEST_S):
            await self.task


@asynccontextmanager
async def sinking(log: EventLog, url: str, sink: SqlSink = totals) -> AsyncIterator[Running]:
    target = SinkDatabase(url, sink)
    runner = SinkRunner(log, target)
    task = asyncio.create_task(runner.run())
    try:
        yield Running(runner, task)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, TerminalError):
            await task
        await target.close()


async def end(work: Sinking) -> None:
    """Let a sink apply all that there is, and end."""
    while await work.step(0.1):
        pass
    await work.end()
    await work.database.close()


async def apply_all(log: EventLog, url: str, sink: SqlSink = totals, observe: ObserveApplied = lambda _: None) -> None:
    """Apply what is on a log to a database, from where its sink was."""
    work = Sinking(log, SinkDatabase(url, sink), observe)
    await work.begin(range(8))
    await end(work)


async def publish(log: EventLog, numbers: Sequence[int], counters: str = COUNTERS) -> None:
    await log.publish_many([Counted(counter=each, number=number) for number in numbers for each in counters])


def rows_in(database: Engine, schema: str = "totals") -> dict[str, tuple[int, int, str]]:
    with database.connect() as connection:
        found = connection.execute(text(f"SELECT counter, events, total, trail FROM {schema}.totals"))  # noqa: S608
        return {row.counter: (row.events, row.total, row.trail) for row in found}


async def folded(log: EventLog) -> dict[str, tuple[int, int, str]]:
    """What the rows have to be: the log, folded without a database."""
    rows = dict[str, tuple[int, int, str]]()
    for partition in range(8):
        for record in await log.port.read("counts", partition, 0, 1_000_000):
            event = log.decode(record)
            if isinstance(event, Counted):
                events, total, trail = rows.get(event.counter, (0, 0, ""))
                rows[event.counter] = events + 1, total + event.number, f"{trail}{partition}/{record.offset} "
    return rows
