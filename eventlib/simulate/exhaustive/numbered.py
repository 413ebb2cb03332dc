"""Numbers instead of things, so that a moment of a whole world is a few tuples of small integers."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Numbered(Generic[T]):
    """Gives equal things one number, and keeps the first of them."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._things: list[T] = []

    def number(self, thing: T, same: Hashable) -> int:
        """Return a thing's number: that of an earlier one with an equal `same`, or a new one."""
        number = self._numbers.setdefault(same, len(self._things))
        if number == len(self._things):
            self._things.append(thing)
        return number

    def __getitem__(self, number: int) -> T:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)
