"""When a command that goes on has to stop."""

import asyncio
import signal


def stop_signal() -> asyncio.Future[None]:
    """Return what is done at the first SIGINT or SIGTERM; the second one is the interpreter's own again."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def stopped() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped)
    return stop
