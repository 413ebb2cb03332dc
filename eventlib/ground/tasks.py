"""Waits for tasks of asyncio, and ends them."""

import asyncio
from typing import Any


async def cancelled(*tasks: "asyncio.Future[Any] | None") -> None:
    """Cancel tasks, and wait until each has ended, whatever it raises; None is a task that was not begun."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


async def first_of(*futures: "asyncio.Future[Any]") -> None:
    """Wait until one is done. Raises: what it failed with."""
    done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for each in done:
        each.result()
