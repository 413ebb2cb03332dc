"""A service that quotes rates, and has none while its table is broken: what it is asked is parked then."""

import os
from dataclasses import dataclass

from eventlib import Choreography, Decider, Event, Service
from eventlib.model.states import replace
from eventlib.model.topic import Topic

BROKEN = "RATES_APP_BROKEN"


class RateAsked(Event, topic=Topic("asked", partitions=4), key="name"):
    """Somebody asks for the rate of a country."""

    name: str
    number: int
    note: str | None = None


class RateQuoted(Event, topic=Topic("quoted", partitions=4), key="name", final=True):
    """The rate was quoted."""

    name: str
    number: int


@dataclass(frozen=True)
class Quotes:
    asked: int = 0
    note: str = ""


quotes = Decider("quotes", state=Quotes, key="name")


@quotes.evolve
def evolve(state: Quotes, event: Event) -> Quotes:
    return replace(state, asked=state.asked + 1, note=event.note or "") if isinstance(event, RateAsked) else state


@quotes.on(RateAsked)
def quote(state: Quotes, asked: RateAsked) -> list[RateQuoted]:
    del state
    if os.environ.get(BROKEN):
        raise KeyError(f"no rate for {asked.name}")
    return [RateQuoted(name=asked.name, number=asked.number)]


app = Choreography("rates", [Service("rates", deciders=[quotes])])
