"""An incompatibility of two schemas, and pairs of types visited once."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True)
class Incompatibility:
    """A rule that is broken, where in the schema, and what to do about it."""

    rule: str
    path: str
    message: str


Found = list[Incompatibility]


class OverBudgetError(Exception):
    """A comparison has taken all that it was given."""


class Budget:
    """What a comparison may take: so many pairs of types, so many seconds, and it ends when `end` is called."""

    def __init__(self, pairs: int, seconds: float) -> None:
        self._pairs = pairs
        self._until = monotonic() + seconds
        self._is_ended = False

    def end(self) -> None:
        """End the comparison from another thread."""
        self._is_ended = True

    def spend(self) -> None:
        """Pay for a pair. Raises: OverBudgetError."""
        self._pairs -= 1
        if self._pairs < 0 or self._is_ended or monotonic() > self._until:
            raise OverBudgetError


_BUDGET = ContextVar[Budget | None]("_BUDGET", default=None)


@contextmanager
def within(budget: Budget) -> Iterator[None]:
    """Let the comparisons made here take no more than a budget."""
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)


def spend() -> None:
    """Pay for a pair of types, where there is a budget. Raises: OverBudgetError."""
    budget = _BUDGET.get()
    if budget is not None:
        budget.spend()


DEEPEST_PAIRS = 80
"""How many pairs a comparison is in at once: well below what Python's stack holds, since native code fails at its end."""


class Pairs:
    """What is known of pairs. One that is being compared counts as readable: what breaks it shows elsewhere in it.

    Guarantee: each pair that cannot be read is compared once, and no answer rests on a pair that turned out so.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Found] = {}
        self._depth = 0

    def once(self, pair: Hashable, compare: Callable[[], Found]) -> Found:
        """Return what a comparison of a pair finds. Raises: RecursionError for types that lead to each other too deeply."""
        if pair not in self._known:
            if self._depth == DEEPEST_PAIRS:
                raise RecursionError(f"more than {DEEPEST_PAIRS} types lead to each other")
            before = len(self._known)
            self._known[pair] = []
            self._depth += 1
            found = compare()
            self._depth -= 1
            if found:  # what was found readable inside may have counted on this pair
                for later in [*self._known][before:]:
                    if not self._known[later]:
                        del self._known[later]
            self._known[pair] = found
        return self._known[pair]
