"""Opens the application's log for a command that looks at it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from eventlib.cli.options import LOG_VARIABLE, LogOptions
from eventlib.cli.project import load_choreography
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.log.url import log_file
from eventlib.opening import open_log

T = TypeVar("T")


def look(place: LogOptions, command: Callable[[EventLog], Awaitable[T]], *, missing: bool = False) -> T:
    """Run a command on a log that is there, or that need not be if it may be `missing`.

    Raises: WiringError when there is no such application or log.
    """
    choreography = load_choreography(place.app)
    if not missing:
        refuse_missing(place.url)

    async def opened() -> T:
        async with open_log(place.url, choreography, read_only=True) as log:
            return await command(log)

    return asyncio.run(opened())


def refuse_missing(url: str) -> None:
    """Refuse a log that is not there, for commands that only read. Raises: WiringError."""
    if url.startswith("memory:"):
        raise WiringError(f"{url} lives and ends with one process, so there is nothing to look at: name a log file")
    path = log_file(url)
    if path is not None and not path.is_file():  # whether another kind of log is there shows when it is opened
        raise WiringError(
            f"there is no log at {path}: `eventlib run` makes one, or name another with --log or {LOG_VARIABLE}"
        )
