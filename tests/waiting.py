"""Wait for what a test expects to see, with an end."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def until(
    holds: Callable[[], bool] | Callable[[], Awaitable[bool]], *, longest_s: float = 120, pause_s: float = 0.01
) -> None:
    """Ask again and again until it holds. Raises: AssertionError when it does not within so many seconds."""
    deadline = time.monotonic() + longest_s
    while True:
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(pause_s)
