"""`eventlib admin`: the operators' HTTP API, until it is stopped."""

import asyncio
from contextlib import AsyncExitStack, closing

from eventlib.admin import create_admin
from eventlib.cli.http import Listening
from eventlib.cli.opened import refuse_missing
from eventlib.cli.options import Place
from eventlib.cli.project import load_choreography
from eventlib.cli.stopping import stop_signal
from eventlib.errors import WiringError
from eventlib.opening import open_log
from eventlib.settings import eventlib_settings
from eventlib.telemetry.logs import tell


def serve_admin(place: Place, http: str) -> None:
    """Serve the admin API until SIGINT or SIGTERM. Raises: WiringError without a token."""
    choreography = load_choreography(place.app)
    refuse_missing(place.url)
    token = eventlib_settings().admin_token
    if token is None:
        raise WiringError(
            "the admin API is off: set EVENTLIB_ADMIN_TOKEN to a long random text, such as `openssl rand -hex 32` gives"
        )

    tokens = [each.strip() for each in token.get_secret_value().split(",")]

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            listening = stack.enter_context(closing(Listening(http)))
            log = await stack.enter_async_context(open_log(place.url, choreography, read_only=True))
            stop = stop_signal()
            serving = await stack.enter_async_context(listening.serve(create_admin(log, *tokens)))
            tell(f"The admin API of {choreography.name} is at {listening.url}; Ctrl-C stops.")
            done, _ = await asyncio.wait([stop, serving], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()

    asyncio.run(serve())
