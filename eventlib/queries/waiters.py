"""Waiting for what a projection has not seen yet, without looking again and again."""

import asyncio
from collections.abc import Callable, Hashable, Iterable


class Waiters:
    """Those who wait for something under a key: an order, a partition.

    Cost: `wake` costs what waits under its keys, however many wait under others.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, dict[asyncio.Future[None], Callable[[], bool]]] = {}

    async def until(self, key: Hashable, met: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `met()` after some `wake` of this key; False when it did not come true in time."""
        if met():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, {})[future] = met
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return met()
        finally:
            self._forget(key, future)
        return True

    def wake(self, keys: Iterable[Hashable]) -> None:
        """Let those who wait under these keys look again."""
        for key in keys:
            for future, met in list(self._waiting.get(key, {}).items()):
                if not future.done() and met():
                    future.set_result(None)

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits that it will not come."""
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(error)

    def _forget(self, key: Hashable, future: "asyncio.Future[None]") -> None:
        waiting = self._waiting[key]
        del waiting[future]
        if not waiting:
            del self._waiting[key]
