"""An event loop whose time is the simulated world's: it runs until nothing is ready, and never waits."""

import asyncio
import selectors
from collections.abc import Callable

from eventlib.errors import TerminalError

_TURN_S = 1e-8


class WorldLoop(asyncio.SelectorEventLoop):
    """Runs code that uses asyncio within one step of a schedule; `clock_ms` is the world's clock."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._never_waits = _NeverWaits()
        super().__init__(self._never_waits)
        self._never_waits.is_idle = self.stop

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`: the world's time, a little later at each turn, or a rounded one never comes."""
        return self._clock_ms() / 1000 + self._never_waits.turns * _TURN_S

    def run_until_idle(self) -> float | None:
        """Run until nothing is ready, and return in how many seconds a timer is due; None when there is no timer."""
        self.run_forever()
        return self._never_waits.due_s


class _NeverWaits(selectors.SelectSelector):
    """Reports that nothing is ready where a selector would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_idle: Callable[[], None] = _unset
        self.due_s: float | None = None
        self.turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`; nothing in a simulated world uses a socket."""
        self.turns += 1
        if timeout is None or timeout > 0:
            self.due_s = timeout
            self.is_idle()
        return []


def _unset() -> None:
    raise TerminalError("the loop is not made yet")
