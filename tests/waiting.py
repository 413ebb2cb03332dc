"""Wait for what a test expects to see, with an end."""

import asyncio
import time
from collections.abc import Callable


async def until(holds: Callable[[], bool], *, longest_s: float = 120, pause_s: float = 0.01) -> None:
    deadline = time.monotonic() + longest_s
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(pause_s)
