"""A replay that several processes share, each of which opens the log."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from eventlib.ground.fork_pool import cores, in_processes
from eventlib.model.choreography import Choreography
from eventlib.opening import open_log
from eventlib.replay.partition_buffer import Shard
from eventlib.replay.replaying import FIRST, replay
from eventlib.replay.report import Difference, Report, merged
from eventlib.runtime.runtime import collect_garbage_seldom

_OBJECTS = 500_000
"""More than a replay holds in its window: while the window moves, there is nothing to collect."""

_MOST_PROCESSES = 4
"""How many processes share a replay at most: every one of them reads the whole log."""

Told = Callable[[Difference], None]
Telling = Callable[[int], AbstractContextManager[Told | None]]
"""What is called with every difference that a process finds, given the process's number."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is compared: of which services (None: all), since when, of which sagas (None: all), how many shown in full."""

    services: Sequence[str] | None = None
    since: datetime | None = None
    sagas: Collection[str] | None = None
    limit: int = FIRST


def replay_in_processes(
    url: str, choreography: Choreography, wanted: Wanted, telling: Telling = lambda _: nullcontext()
) -> Report:
    """Replay a log, and return the report. Raises: as `replay` does, and TerminalError when a process has died."""
    collect_garbage_seldom(growth=_OBJECTS)
    count = min(cores(), _MOST_PROCESSES)

    def work(index: int) -> Report:
        with telling(index) as told:
            return asyncio.run(_replayed(url, choreography, wanted, Shard(index, count), told))

    return merged(in_processes(work, count), wanted.limit)


async def _replayed(url: str, choreography: Choreography, wanted: Wanted, part: Shard, told: Told | None) -> Report:
    async with open_log(url, choreography, read_only=True) as log:
        return await replay(
            log,
            services=wanted.services,
            since=wanted.since,
            sagas=wanted.sagas,
            limit=wanted.limit,
            part=part,
            told=told,
        )
