"""An incompatibility of two schemas, and pairs of types visited once."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Incompatibility:
    """A rule that is broken, where in the schema, and what to do about it."""

    rule: str
    path: str
    message: str


Found = list[Incompatibility]


class Pairs:
    """What is known of pairs. One that is being compared counts as readable: what breaks it shows elsewhere in it.

    Guarantee: each pair that cannot be read is compared once, and no answer rests on a pair that turned out so.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Found] = {}

    def once(self, pair: Hashable, compare: Callable[[], Found]) -> Found:
        """Return what a comparison of a pair finds."""
        if pair not in self._known:
            before = len(self._known)
            self._known[pair] = []
            found = compare()
            if found:  # what was found readable inside may have counted on this pair
                for later in [*self._known][before:]:
                    if not self._known[later]:
                        del self._known[later]
            self._known[pair] = found
        return self._known[pair]
