"""`eventlib run`: the services, until they are stopped."""

import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack

from eventlib.choreography import Choreography
from eventlib.cli.options import Place
from eventlib.cli.project import load_choreography
from eventlib.errors import WiringError
from eventlib.opening import open_log
from eventlib.runtime import Runtime, RuntimeConfig
from eventlib.settings import runtime_config


def run_services(place: Place, only: list[str]) -> None:
    """Run services (those named, or all) until SIGINT or SIGTERM, or until something fails for good."""
    choreography = load_choreography(place.app)
    names = [choreography.service(name).name for name in only] or [service.name for service in choreography.services]
    ports = sorted({port for name in names for port in choreography.service(name).ports})
    if ports and choreography.ports is None:
        raise WiringError(
            f"effects speak to {', '.join(ports)}, and nobody opens that: give the choreography a function that does, "
            f"Choreography({choreography.name!r}, ..., ports=open_outside)"
        )
    config = runtime_config()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(choreography, list(dict.fromkeys(names)), place.url, config))


async def _serve(choreography: Choreography, names: list[str], url: str, config: RuntimeConfig) -> None:
    async with AsyncExitStack() as stack:
        # The outside world first: a wrong setting of it should not leave a new log behind.
        ports = {} if choreography.ports is None else await stack.enter_async_context(choreography.ports(url))
        event_log = await stack.enter_async_context(open_log(url, choreography))
        runtime = await stack.enter_async_context(Runtime(event_log, ports=ports, services=names, config=config))
        stop = _stop_signal()
        failed = asyncio.ensure_future(runtime.failed())
        _tell(f"Running {', '.join(names)} on {url}; Ctrl-C stops.")
        await asyncio.wait([failed, stop], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
        failed.cancel()
        _tell("Stopping: finishing what is at hand.")
    _tell("Stopped.")


def _stop_signal() -> asyncio.Future[None]:
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


def _tell(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
