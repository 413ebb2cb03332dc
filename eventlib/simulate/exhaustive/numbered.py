"""Numbers instead of things, so that a moment of a whole world is a few tuples of small integers."""

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Generic, TypeVar

from eventlib.simulate.choices import Choices

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


def canonical(thing: object) -> Hashable:
    """Return what is equal for equal things: the `repr` of a set depends on the seed of hashes."""
    if isinstance(thing, int | str):
        return thing
    if is_dataclass(thing):
        thing = (type(thing).__name__, *(getattr(thing, field.name) for field in fields(thing)))
    match thing:
        case dict():
            return tuple(sorted((repr(key), canonical(value)) for key, value in thing.items()))
        case set() | frozenset():
            return tuple(sorted(map(repr, thing)))
        case tuple() | list():
            return tuple(map(canonical, thing))
        case Choices():
            return None
        case _:
            return repr(thing)
