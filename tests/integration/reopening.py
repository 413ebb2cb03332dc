"""One log that is opened again and again, as restarts do, also with other code, and all that stands on it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from eventlib import Choreography, Event, EventLog
from eventlib.model.record import Record
from eventlib.replay.journal import TaskJournal
from eventlib.replay.journal_steps import Done
from eventlib.replay.player import Player
from eventlib.replay.task_inputs import PullScanner, TaskInputs

Opened = Callable[[Choreography], AbstractAsyncContextManager[EventLog]]


@asynccontextmanager
async def reopened(kept: EventLog, choreography: Choreography) -> AsyncIterator[EventLog]:
    log = EventLog(kept.port, kept.codec, choreography)
    await log.prepare()
    yield log


async def everything(log: EventLog, topic: str) -> list[Record]:
    partitions = (await log.port.topics())[topic].partitions
    return [r for p in range(partitions) for r in await log.port.read(topic, p, 0, 100_000)]


async def events(log: EventLog, topic: str) -> list[Event]:
    return [event for _, event in await log.decode_many(await everything(log, topic)) if isinstance(event, Event)]


async def done_by(log: EventLog, partition: int) -> list[Done]:
    """Return what a task of the first service has done, transaction by transaction."""
    task = log.choreography.services[0], partition
    player = Player(log, task, TaskInputs(PullScanner(log), task))
    return [
        Done(record.offset, entry.at_ms, entry.code_version, entry.said, await player.play(entry))
        async for record, entry in TaskJournal(log, *task).entries()
    ]
