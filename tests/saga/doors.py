"""A door and its bell: the events, what is counted, and a scenario in which somebody presses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eventlib import Event
from eventlib.invariants import ExternalState, ExternalStates, Fold
from eventlib.simulation import Choices, Scenario, SmallCase


class Pressed(Event, topic="presses", key="door", request=True):
    door: str


class Passed(Event, topic="passes", key="door"):
    door: str


class Opened(Event, topic="opened", key="door"):
    door: str


class Shut(Event, topic="opened", key="door"):
    door: str


@dataclass(frozen=True)
class Count:
    opened: int = 0


@dataclass(frozen=True)
class Bells:
    is_ringing: bool = False


opened, bells = Fold("opened", state=Count, key="door"), ExternalState("bell", state=Bells, key="door")


@opened.evolve
def count(known: Count, event: Event) -> Count:
    return replace(known, opened=known.opened + isinstance(event, Opened))


class Bell:
    """Rings, unless it was muted, which lasts."""

    def __init__(self) -> None:
        self.is_ringing = False
        self.is_muted = False

    async def ring(self) -> bool:
        self.is_ringing = not self.is_muted
        return self.is_ringing

    async def mute(self) -> bool:
        self.is_ringing, self.is_muted = False, True
        return False


class Doors(Scenario):
    """A door at which somebody presses the bell three times, or once."""

    presses = 3

    def requests(self, orders: int, choose: Choices) -> Sequence[Event]:
        raise NotImplementedError

    def ports(self, choose: Choices) -> Mapping[str, object]:  # noqa: ARG002  nothing to choose
        return {"bell": Bell()}

    def small_case(self) -> SmallCase:
        return SmallCase([], [Pressed(door="front")] * self.presses)

    def facts(self, ports: Mapping[str, object]) -> ExternalStates:
        bell = ports["bell"]
        assert isinstance(bell, Bell)
        return {bells: {"front": Bells(bell.is_ringing)}}
