"""A thing that is asked for, wanted of the outside and got; each function of the name `odd` does what a test says."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from eventlib import Choreography, Decider, Event, Retry, Service


class Asked(Event, topic="asked", key="name", request=True):
    name: str


class Wanted(Event, topic="wanted", key="name"):
    name: str


class Got(Event, topic="got", key="name"):
    name: str


@dataclass(frozen=True)
class Thing:
    asked: int = 0


@dataclass
class Odd:
    """What each function does for the name `odd`."""

    evolve: Callable[[], None] = lambda: None
    handle: Callable[[], None] = lambda: None
    due: Callable[[], None] = lambda: None
    answer: Callable[[], Event] | None = None
    otherwise: Callable[[], object] | None = None


def choreography(odd: Odd) -> Choreography:  # noqa: C901  one service, all in one place
    things: Decider[Thing] = Decider("thing", state=Thing, key="name")

    @things.evolve
    def evolve(thing: Thing, event: Event) -> Thing:
        if isinstance(event, Asked):
            if event.name == "odd":
                odd.evolve()
            return replace(thing, asked=2 if event.name == "odd" else 1)
        return thing

    @things.on
    def ask(_thing: Thing, asked: Asked) -> list[Wanted]:
        if asked.name == "odd":
            odd.handle()
        return [Wanted(name=asked.name)]

    things.follows(Got)

    @things.deadline
    def late(thing: Thing) -> datetime | None:
        if thing.asked == 2:
            odd.due()
        return None

    @late.passed
    def pass_by(_thing: Thing) -> list[Got]:
        return []

    def give_up(wanted: Wanted) -> Got:
        return odd.otherwise() if odd.otherwise else Got(name=wanted.name)  # type: ignore[return-value]  # it lies

    @things.effect(Wanted, retry=Retry(attempts=2, first_pause_s=0, jitter_s=0), otherwise=give_up)
    async def get(wanted: Wanted) -> Got:
        if wanted.name == "odd" and odd.otherwise is not None:
            raise ValueError("no")
        if wanted.name == "odd" and odd.answer is not None:
            return odd.answer()  # type: ignore[return-value]  # some lie
        return Got(name=wanted.name)

    return Choreography("odd", [Service("things", deciders=[things], effects="all")])
