"""A service that repeats what it hears: with a bug, or in a process that is killed in the middle of handling."""

import os
import signal
from dataclasses import dataclass
from itertools import count

from eventlib import Choreography, Decider, Event, Service
from eventlib.model.states import replace
from eventlib.model.topic import Topic

BUG = "PARKED_APP_BUG"
DIES_AT = "PARKED_APP_DIES_AT"
_handled = count(1)


class ExternalStates(Event, topic=Topic("told", partitions=4), key="name"):
    name: str
    number: int


class Heard(Event, topic=Topic("heard", partitions=4), key="name"):
    name: str
    number: int
    before: int


@dataclass(frozen=True)
class Listener:
    heard: int = 0


listeners = Decider("listener", state=Listener, key="name")


@listeners.evolve
def evolve(listener: Listener, event: Event) -> Listener:
    return replace(listener, heard=listener.heard + 1) if isinstance(event, ExternalStates) else listener


@listeners.on(ExternalStates)
def repeat(listener: Listener, told: ExternalStates) -> list[Heard]:
    if os.environ.get(BUG):
        raise KeyError(f"no rate for {told.name}")
    if next(_handled) == int(os.environ.get(DIES_AT, "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    return [Heard(name=told.name, number=told.number, before=listener.heard - 1)]


app = Choreography("parked", [Service("ears", deciders=[listeners])])
