"""The interface of a scenario: customers' requests, external systems, and the choices of a schedule."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from eventlib.errors import WiringError
from eventlib.invariants import ExternalStates
from eventlib.model.event import Event

if TYPE_CHECKING:
    from eventlib.simulation.consumers import SimulatedConsumer

T = TypeVar("T")


class Choice(NamedTuple):
    """A choice that was made: its subject, how many options there were, and which was picked, from 0."""

    what: str
    options: int
    picked: int


class Choices:
    """Makes a schedule's choices with a function that picks, and records them."""

    def __init__(self, pick: Callable[[str, int], int]) -> None:
        self.made: list[Choice] = []
        self._pick = pick

    def number_of(self, what: str, options: int) -> int:
        """Pick one of so many options, and return its number from 0; a single option is not recorded."""
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
        """Pick whether something happens that happens in so many cases of a hundred; False is the harmless one."""
        return percent > 0 and self.number_of(what, 100) >= 100 - percent


def drawn_from(random: Random) -> Choices:
    """Return choices made uniformly by a source of randomness."""
    return Choices(lambda _what, options: random.randrange(options))


def harmless() -> Choices:
    """Return choices that are always the first option."""
    return Choices(lambda _what, _options: 0)


class Recorded(Choices):
    """Choices repeated from a recording, as long as they match; after that, the harmless ones.

    `differs` describes the first mismatch.
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
            f"choice {number + 1} of {len(self._recorded)} was about {choice.what!r} with {choice.options} options, but "
            f"now it is {what!r} with {options}"
        )
        return 0


class SmallCase(NamedTuple):
    """A few requests, made in any order, after the events of `before` have been handled.

    Calls of the ports that `reliable` names are made once, and answered; the result says so. What comes of `before` is handled up to
    the first call of another port. Both leave fewer moments, where it is that port that matters.
    """

    before: Sequence[Event] = ()
    requests: Sequence[Event] = ()
    reliable: Collection[str] = ()


class Scenario(ABC):
    """An application's requests and external systems, created for each schedule; pyproject.toml names the class.

    `[tool.eventlib] simulation = "services.simulation:ShopScenario"`

    Faults are not part of it: the simulator decides when a request comes and whether it comes twice, and for each call of
    a port whether it arrives, how late, how often, and whether its answer comes back. Your ports do what they are asked,
    as the real ones would under the same idempotency key. An outcome that may vary (a card is declined) is a choice:
    `choose.whether("the card is declined", percent=10)`.
    """

    def beginning(self, orders: int, choose: Choices) -> Sequence[Event]:  # noqa: ARG002  not every application has one
        """Return the first events on the log: a catalogue, a first delivery."""
        return ()

    @abstractmethod
    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        """Return the external requests for so many orders; each may come at any time and in any order."""

    @abstractmethod
    def ports(self, choose: Choices) -> Mapping[str, object]:
        """Return the external systems by parameter name: objects whose async methods never wait."""

    def callbacks(self, ports: Mapping[str, object]) -> Mapping[str, Event]:  # noqa: ARG002  not every world calls back
        """Return what the external systems have to report so far, by ids of their own: the same ones at every later call.

        These are events that effects await. The simulator decides when each comes, whether it comes twice, or at all.
        """
        return {}

    def consumers(self) -> Sequence["SimulatedConsumer"]:
        """Return the sinks and subscribers of webhooks that take part."""
        return ()

    def small_case(self) -> "SmallCase":
        """Return the case that is explored exhaustively; without requests there is nothing to explore."""
        return SmallCase()

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:  # noqa: ARG002  not every world can be asked
        """Return the external systems' data on each key, for the invariants that need it."""
        return {}


def scenario_class(found: object) -> type[Scenario]:
    """Return what was imported as a scenario. Raises: WiringError when it is none."""
    if not (isinstance(found, type) and issubclass(found, Scenario)):
        raise WiringError(f"{found!r} is not a scenario class: derive one from eventlib.simulation.scenario.Scenario")
    return found
