"""The smallest services there can be, for tests that are about something else."""

from dataclasses import dataclass
from typing import Never

from eventlib import Decider, Event, Service


class Said(Event, topic="small.said", key="key", request=True):
    """Something that a small service listens to."""

    key: str


@dataclass(frozen=True)
class Count:
    """How often something was heard."""

    times: int = 0


def noting(name: str = "small") -> Service:
    """Return a service that hears, and says nothing."""
    decider: Decider[Count] = Decider(name, state=Count, key="key")

    @decider.on(Said)
    def note(_count: Count, _said: Said) -> list[Never]:
        return []

    return Service(name, deciders=[decider])
