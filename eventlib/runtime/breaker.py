"""Circuit breakers: while a port keeps failing, calls to it stop, and what would have called waits.

Written here because the libraries at hand (purgatory, the one that is typed, async and maintained, was read in its
version 3.0.1) refuse a caller where an effect has to wait, let everybody through at once when half open, count a call
that began before the circuit opened, and measure pauses by the wall clock.
"""

import asyncio
import logging
from dataclasses import dataclass
from enum import StrEnum

_log = logging.getLogger(__name__)


class BreakerState(StrEnum):
    """Whether calls go through (closed), wait (open), or wait for one of them to try (half open)."""

    CLOSED = "closed"
    HALF_OPEN = "half open"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    """When calls to a port stop, and for how long.

    `failures` in a row stop them, whichever requests they were for; 0 never does. Pauses double from `pause_s` up to
    `longest_pause_s`; after each, one call tries.
    """

    failures: int
    pause_s: float
    longest_pause_s: float


class Breaker:
    """One port's circuit breaker in this process.

    `begin` asks for a turn, `wait` waits until it is worth asking again; each turn that was given ends with `worked`,
    `failed` or `abandoned`. A turn given before the circuit last changed tells nothing about the port now, and counts
    for nothing.
    """

    def __init__(self, port: str, config: BreakerConfig) -> None:
        self.state = BreakerState.CLOSED
        self._port = port
        self._config = config
        self._turn = 0
        self._failures = 0
        self._pause_s = config.pause_s
        self._ask_again = asyncio.Event()
        self._ask_again.set()

    @property
    def lets_through(self) -> bool:
        """Whether `begin` would give a turn."""
        return self._ask_again.is_set()

    def begin(self) -> int | None:
        """Return a turn to call the port; None when it is not the time."""
        if not self._ask_again.is_set():
            return None
        if self.state is BreakerState.HALF_OPEN:
            self._ask_again.clear()  # one call tries for all
        return self._turn

    async def wait(self) -> None:
        """Wait until `begin` may give a turn."""
        await self._ask_again.wait()

    def worked(self, turn: int) -> None:
        """Take note that the port answered."""
        if turn != self._turn:
            return
        self._failures = 0
        if self.state is BreakerState.HALF_OPEN:
            self._pause_s = self._config.pause_s
            self._change(BreakerState.CLOSED)
            _log.info("port %s answers again: calls go on", self._port)

    def failed(self, turn: int, why: str) -> None:
        """Take note that the port did not answer, and why, as it may be logged."""
        if turn != self._turn:
            return
        self._failures += 1
        if self.state is BreakerState.HALF_OPEN:
            self._pause_s = min(2 * self._pause_s, self._config.longest_pause_s)
            self._open(why)
        elif self._failures == self._config.failures:
            self._open(why)

    def abandoned(self, turn: int) -> None:
        """Take note that a call was given up before its outcome was known: another call may try."""
        if turn == self._turn:
            self._ask_again.set()

    def _open(self, why: str) -> None:
        self._change(BreakerState.OPEN)
        asyncio.get_running_loop().call_later(self._pause_s, self._change, BreakerState.HALF_OPEN)
        _log.warning(
            "port %s failed %s times in a row (%s): calls wait %s s", self._port, self._failures, why, self._pause_s
        )

    def _change(self, state: BreakerState) -> None:
        self.state = state
        self._turn += 1
        if state is BreakerState.OPEN:
            self._ask_again.clear()
        else:
            self._ask_again.set()


NEVER_OPEN = Breaker("", BreakerConfig(failures=0, pause_s=0, longest_pause_s=0))
"""For effects without a port; never opens."""
