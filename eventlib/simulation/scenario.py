"""What a scenario is written with: what customers request, the external world, and the choices of a schedule."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple, TypeVar

from eventlib.invariants import ExternalStates
from eventlib.model.event import Event

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


class SmallCase(NamedTuple):
    """A few requests, asked in any order, after those of `before` have been dealt with."""

    before: Sequence[Event] = ()
    requests: Sequence[Event] = ()


class Scenario(ABC):
    """An application's surroundings, made anew for each schedule; pyproject.toml names the class.

    `[tool.eventlib] simulation = "services.simulation:ShopScenario"`

    Faults are the simulator's part, and none of yours: it decides when a request comes and whether it comes twice, and
    for each call of a port whether it arrives, how late, how often, and whether its answer comes back. Your ports do
    what they are asked, as the real ones would under the same idempotency key. Whatever may come out one way or the
    other (a card is declined) is a choice: `choose.whether("the card is declined", percent=10)`.
    """

    def beginning(self, orders: int, choose: Choices) -> Sequence[Event]:  # noqa: ARG002  not every application has one
        """Return what stands on the log before anything else: a catalogue, a first delivery."""
        return ()

    @abstractmethod
    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        """Return what is asked from outside, for so many orders; it may come at any time and in any order."""

    @abstractmethod
    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the outside world by parameter name; each port an object whose async methods never wait."""

    def small_case(self) -> "SmallCase":
        """Return what is explored exhaustively; without requests there is nothing to explore."""
        return SmallCase()

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:  # noqa: ARG002  not every world can be asked
        """Return what the outside world says of each key, for the invariants that are about it."""
        return {}
