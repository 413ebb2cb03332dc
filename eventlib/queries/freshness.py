"""How old at most what follows a log is: all that was on the log so long ago has been applied."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic

from eventlib.errors import RetryableError
from eventlib.log.base import TopicPartition

Ends = Mapping[TopicPartition, int]
_ASK_S = 0.5


class Freshness:
    """Keeps at which time all that was on the log then had been applied: from ends of the log that `has_reached` tells of."""

    def __init__(self, has_reached: Callable[[Ends], bool]) -> None:
        self._has_reached = has_reached
        self._current_at = 0.0
        self._mark: tuple[float, Ends] | None = None
        self._asks = False

    @property
    def age_s(self) -> float:
        """How old it is at most, as far as is known."""
        if self._mark is not None and self._has_reached(self._mark[1]):
            asked_at, self._mark = self._mark[0], None
            self.was_current(asked_at)
        return monotonic() - self._current_at

    def was_current(self, at: float) -> None:
        """Take note that all has been applied that was on the log at a time (of `monotonic`)."""
        self._current_at = max(self._current_at, at)

    async def asked(self, ends: Callable[[], Awaitable[Ends]], fresh_s: float) -> float:
        """Return `age_s`, after asking the log where it ends when that was not done for `fresh_s`; one of many callers asks."""
        if self.age_s > fresh_s and self._mark is None and not self._asks:
            self._asks, asked_at = True, monotonic()
            try:
                with suppress(RetryableError, TimeoutError):
                    async with asyncio.timeout(_ASK_S):
                        self._mark = asked_at, await ends()
            finally:
                self._asks = False
        return self.age_s
