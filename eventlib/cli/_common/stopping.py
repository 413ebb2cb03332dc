"""When a command that keeps running has to stop."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

from eventlib.operations.startup_waits import WaitingNote
from eventlib.startup import Startup
from eventlib.telemetry.logs import tell


class Stopped(Exception):
    """A signal came while a command was starting."""


def stop_signal() -> asyncio.Future[None]:
    """Return what is done at the first SIGINT or SIGTERM; the second one is the interpreter's own again."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def stopped() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if not stop.done():  # two signals may come at once
            stop.set_result(None)

    if threading.current_thread() is threading.main_thread():  # others hear no signals: who runs this there, ends it
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped)
    return stop


@asynccontextmanager
async def unless_stopped(stop: "asyncio.Future[None]") -> AsyncIterator[None]:
    """Leave the block at once when `stop` is done, whatever it waits for. Raises: Stopped."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  a coroutine runs in one
    inside = True

    def interrupt(_: "asyncio.Future[None]") -> None:
        if inside:  # a flag, since a future that is done has handed its callbacks on, and takes none of them back
            task.cancel()

    stop.add_done_callback(interrupt)
    try:
        yield
    except asyncio.CancelledError:
        if stop.done() and not task.uncancel():
            raise Stopped from None
        raise
    finally:
        inside = False


@contextmanager
def starting_up(log_url: str, state_dir: str, runs: str) -> Iterator[Startup]:
    """Give a command's start, which says on stderr, and for `eventlib status` on this machine, what it waits for."""
    startup = Startup(tell)
    with closing(WaitingNote(log_url, state_dir, runs)) as note:
        startup.on_change = note
        yield startup
