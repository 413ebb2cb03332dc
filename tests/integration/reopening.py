"""One log that is opened again and again, as restarts do, also with other code, and all that stands on it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from eventlib import Choreography, Event, EventLog
from eventlib.model.record import Record

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
