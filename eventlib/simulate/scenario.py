"""What a user gives to the simulator: what customers ask for, and an outside world that is honest."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eventlib.event import Event
from eventlib.laws import Told
from eventlib.simulate.choices import Choices


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

    def facts(self, ports: Mapping[str, object]) -> Told:  # noqa: ARG002  not every world can be asked
        """Return what the outside world says of each key, for the laws that are about it."""
        return {}
