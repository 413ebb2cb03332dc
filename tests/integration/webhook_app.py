"""A small application whose events are delivered by webhook."""

from dataclasses import dataclass
from typing import Annotated

from eventlib import Choreography, Decider, Event, Service
from eventlib.personal import Personal


class Counted(Event, topic="counts.made", key="counter", request=True):
    """A counter has come to a number."""

    counter: str
    number: int
    by: Annotated[str, Personal(subject="counter")] = ""


class Ended(Event, topic="counts.made", key="counter", final=True):
    """A counter counts no more."""

    counter: str


@dataclass(frozen=True)
class Highest:
    """The highest number of a counter."""

    number: int = 0


counts = Decider("counts", state=Highest, key="counter")


@counts.evolve
def rise(highest: Highest, event: Event) -> Highest:
    return Highest(event.number) if isinstance(event, Counted) else highest


@counts.on
def end(highest: Highest, event: Counted) -> list[Ended]:
    return [Ended(counter=event.counter)] if event.number < highest.number else []


APP = Choreography("counting", services=[Service("counts", deciders=[counts])])
