"""Services that run until they have handled all that there is."""

import asyncio
from typing import Any

from eventlib import EventLog, Runtime

LONGEST_S = 120.0


async def handle_all(log: EventLog, **options: Any) -> None:
    """Run a log's services, with the runtime's options, until all is handled."""
    async with Runtime(log, **options) as runtime, asyncio.timeout(LONGEST_S):
        await runtime.idle()
