"""Choices: whatever a schedule could have otherwise is one of them, so that the same choices make the same schedule.

The first option is the harmless one. A schedule that shrinks is one whose choices become fewer, and first options.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Choice(NamedTuple):
    """One choice that was made: what it was about, how many options there were, and which was picked, from 0."""

    what: str
    options: int
    picked: int


class Choices:
    """Makes a schedule's choices with a function that picks, and remembers them."""

    def __init__(self, pick: Callable[[str, int], int]) -> None:
        self.made: list[Choice] = []
        self._pick = pick

    def number_of(self, what: str, options: int) -> int:
        """Pick one of so many options, and return its number from 0; with one option there is nothing to choose."""
        if options <= 1:
            return 0
        picked = self._pick(what, options)
        self.made.append(Choice(what, options, picked))
        return picked

    def one_of(self, what: str, options: Sequence[T]) -> T:
        """Pick one of these; the first is the harmless one."""
        return options[self.number_of(what, len(options))]

    def between(self, what: str, least: int, most: int) -> int:
        """Pick a whole number from `least` to `most`; the least is the harmless one."""
        return least + self.number_of(what, most - least + 1)

    def whether(self, what: str, percent: int = 50) -> bool:
        """Pick whether something happens that happens in so many cases of a hundred; that it does not is harmless."""
        return percent > 0 and self.number_of(what, 100) >= 100 - percent


def drawn_from(random: Random) -> Choices:
    """Return choices that a source of randomness makes, evenly."""
    return Choices(lambda _what, options: random.randrange(options))


def harmless() -> Choices:
    """Return choices that are always the first option."""
    return Choices(lambda _what, _options: 0)


class Recorded(Choices):
    """Choices that are made as before, as far as there are the same ones to make; from there on the harmless ones.

    `differs` says where that was, and how.
    """

    def __init__(self, recorded: Sequence[Choice]) -> None:
        super().__init__(self._as_recorded)
        self.differs = ""
        self._recorded = recorded

    def _as_recorded(self, what: str, options: int) -> int:
        number = len(self.made)
        if self.differs or number >= len(self._recorded):
            return 0
        choice = self._recorded[number]
        if choice[:2] == (what, options):
            return choice.picked
        self.differs = (
            f"choice {number + 1} of {len(self._recorded)} was about {choice.what!r} with {choice.options} options, and "
            f"now {what!r} with {options} has to be chosen there"
        )
        return 0
