"""When a long-running command has to stop."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

from eventlib.ground.startup import Startup
from eventlib.operations.startup_waits import WaitingNote
from eventlib.telemetry.logs import tell


class Stopped(Exception):
    """A signal arrived while a command was starting."""


def stop_signal() -> asyncio.Future[None]:
    """Return a future that is done at the first SIGINT or SIGTERM; the second signal is handled by the interpreter."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def stopped() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if not stop.done():  # two signals may arrive at once
            stop.set_result(None)

    if (
        threading.current_thread() is threading.main_thread()
    ):  # other threads receive no signals: their caller stops them
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped)
    return stop


@asynccontextmanager
async def unless_stopped(stop: "asyncio.Future[None]") -> AsyncIterator[None]:
    """Leave the block at once when `stop` is done, even while it waits. Raises: Stopped."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  a coroutine runs in one
    inside = True

    def interrupt(_: "asyncio.Future[None]") -> None:
        if inside:  # a flag: a future that is done has scheduled its callbacks, and cannot remove them
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
    """Yield a startup, which reports on stderr, and to `eventlib status` on this machine, what it waits for."""
    startup = Startup(tell)
    with closing(WaitingNote(log_url, state_dir, runs)) as note:
        startup.on_change = note
        yield startup
