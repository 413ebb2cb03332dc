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
    """A counter has come to the last number."""

    counter: str
    times: int


@dataclass(frozen=True)
class Ends:
    """How often a counter has ended."""

    times: int = 0


LAST = 99
counts = Decider("counts", state=Ends, key="counter")


@counts.evolve
def evolve(ends: Ends, event: Event) -> Ends:
    return Ends(ends.times + 1) if isinstance(event, Ended) else ends


@counts.on
def end(ends: Ends, event: Counted) -> list[Ended]:
    return [Ended(counter=event.counter, times=ends.times + 1)] if event.number == LAST else []


APP = Choreography("counting", services=[Service("counts", deciders=[counts])])
