"""Comparisons of schemas, each with a budget, beside the event loop where they are long."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from eventlib.registry.compatibility import Budget, Incompatibility, OverBudgetError, within
from eventlib.registry.errors import invalid_schema, stopping, too_complex

Compare = Callable[[], list[Incompatibility]]
_SHORT_PAIRS = 2_000
_SHORT_S = 0.05
_BESIDE = 2
"""How many long comparisons run at once: each takes as much of a processor as all requests have together."""


@dataclass(frozen=True)
class CompareLimits:
    """What a comparison of a schema with the earlier versions may take."""

    pairs: int = 500_000
    seconds: float = 10.0


class Comparer:
    """Runs comparisons.

    Guarantee: one that is long does not hold up others, and ends with its budget, or with the request that waits for it.
    """

    def __init__(self, limits: CompareLimits) -> None:
        self._limits = limits
        self._beside = asyncio.Semaphore(_BESIDE)
        self._running = set[Budget]()
        self._is_ended = False

    def end(self) -> None:
        """End all comparisons, since the server stops."""
        self._is_ended = True
        for each in self._running:
            each.end()

    async def run(self, compare: Compare, *, is_small: bool) -> list[Incompatibility]:
        """Return what a comparison finds. Raises: Refused when it takes more than it may."""
        if is_small:
            try:
                return _within(Budget(min(_SHORT_PAIRS, self._limits.pairs), _SHORT_S), compare)
            except (OverBudgetError, RecursionError):
                pass  # small texts can be long to compare, and a thread has a stack of its own
        async with self._beside:
            budget = Budget(self._limits.pairs, 0 if self._is_ended else self._limits.seconds)
            self._running.add(budget)
            try:
                return await asyncio.to_thread(_within, budget, compare)
            except OverBudgetError as error:
                if self._is_ended:
                    raise stopping() from error
                raise too_complex(self._limits.pairs, self._limits.seconds) from error
            except RecursionError as error:
                raise invalid_schema("its types lead to each other too deeply to be compared: nest less") from error
            finally:
                self._running.discard(budget)
                budget.end()  # the thread goes on when its request is cancelled


def _within(budget: Budget, compare: Compare) -> list[Incompatibility]:
    with within(budget):
        return compare()
