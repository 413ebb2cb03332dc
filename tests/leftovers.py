"""What tests leave behind: processes, which are found by a variable that each has inherited, connections, levels of logging."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

_RUN = "RUN_OF_TESTS"
ENDS_S = 30.0
"""What a test has started may take that long to end, when whoever it listened to has."""


def mark_children() -> None:
    """Let every process that is started from here on carry the name of this run."""
    os.environ[_RUN] = token_hex(8)


def end_leftovers() -> dict[int, str]:
    """Wait until the processes of this run have ended, kill those that do not, and return their commands by id."""
    until = time.monotonic() + ENDS_S
    while (left := _marked()) and time.monotonic() < until:
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def _marked() -> dict[int, str]:
    mark = f"{_RUN}={os.environ[_RUN]}".encode()
    found = dict[int, str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if int(process.name) != os.getpid() and mark in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (
                    (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


_connections = list[str]()


def watch_connections() -> None:
    """Close the connections that an event loop leaves open when it is closed, and note them.

    Nothing else can close them: the collector would meet them during another test, and fail that.
    """
    close = asyncio.SelectorEventLoop.close

    def closing(loop: asyncio.SelectorEventLoop) -> None:
        for transport in [*loop._transports.values()]:  # type: ignore[attr-defined]  # noqa: SLF001  nothing public has them
            left = transport._sock  # noqa: SLF001
            if left is not None:
                _connections.append(f"{left} of {transport.get_protocol()}")
                left.close()
                transport._sock = None  # noqa: SLF001
        close(loop)

    asyncio.SelectorEventLoop.close = closing  # type: ignore[assignment,method-assign]


def connections() -> list[str]:
    """Return the connections that loops have left open since it was asked last."""
    found = [*_connections]
    _connections.clear()
    return found


@contextmanager
def levels_of_logging_kept() -> Iterator[None]:
    """Give each logger the level back that it had before a test: a command that runs in this process sets some."""
    root = logging.getLogger()
    before, others = root.level, _levels()
    try:
        yield
    finally:
        if root.level != before:
            root.setLevel(before)
        for name, level in _levels().items():
            if level != (had := others.get(name, logging.NOTSET)):
                logging.getLogger(name).setLevel(had)


def _levels() -> dict[str, int]:
    """The level of each logger there is."""
    loggers = logging.getLogger().manager.loggerDict
    return {name: logger.level for name, logger in [*loggers.items()] if isinstance(logger, logging.Logger)}
