"""A case of evolution: an old and a new schema, what keeps each from reading the other, and what each has written."""

from dataclasses import dataclass, field
from typing import Any

from eventlib.registry.compatibility import Level

READS = frozenset[str]()
"""Nothing is in the way."""


@dataclass(frozen=True)
class Case:
    """`backward` are the rules that keep the new schema from reading the old one's data, `forward` the other way.

    `old_data` was written with the old schema, `new_data` with the new one.
    """

    name: str
    old: Any
    new: Any
    backward: frozenset[str]
    forward: frozenset[str]
    old_data: list[Any] = field(default_factory=list)
    new_data: list[Any] = field(default_factory=list)

    def expected(self, level: Level) -> frozenset[str]:
        """Return the rules that a level finds broken."""
        backward = self.backward if level.backward else READS
        return backward | (self.forward if level.forward else READS)


def rules(*names: str) -> frozenset[str]:
    return frozenset(names)
