"""A service that counts what it hears, by key, in four tasks."""

from dataclasses import dataclass
from typing import Never

from eventlib import Choreography, Decider, Event, Service, Topic

TASKS = 4


class Heard(Event, topic=Topic("heard", partitions=TASKS), key="key", request=True):
    key: str
    at: int = 0


@dataclass(frozen=True)
class Count:
    times: int = 0


counts = Decider("count", state=Count, key="key")


@counts.evolve
def evolve(count: Count, event: Event) -> Count:
    return Count(count.times + 1) if isinstance(event, Heard) else count


@counts.on(Heard)
def hear(_count: Count, _heard: Heard) -> list[Never]:
    return []


COUNTING = Choreography("counting", [Service("count", deciders=[counts])])
