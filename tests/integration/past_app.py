"""A visit that asks for a letter, and is over when its visitor leaves, whether the letter was sent or not."""

from dataclasses import dataclass
from typing import Never

from eventlib import Choreography, Decider, Event, SagaStates, Service, open_log
from eventlib.model.saga_status import SagaState
from tests.handling import handle_all
from tests.integration.mailing import older


class Arrived(Event, topic="arrivals", key="name", request=True):
    """Somebody has arrived."""

    name: str


class Left(Event, topic="departures", key="name", request=True):
    """Somebody has left."""

    name: str


class LetterRequested(Event, topic="letters", key="name"):
    """A letter is to be sent."""

    name: str


class LetterSent(Event, topic="letters", key="name"):
    """A letter was sent."""

    name: str


class Ended(Event, topic="visits", key="name", final=True):
    """The visit is over."""

    name: str


@dataclass(frozen=True)
class Visit:
    """Somebody's visit."""

    over: bool = False


visits: Decider[Visit] = Decider("visit", state=Visit, key="name")


@visits.evolve
def _evolve(visit: Visit, event: Event) -> Visit:
    return Visit(over=True) if isinstance(event, Ended) else visit


@visits.on(Arrived)
def _ask(_visit: Visit, arrived: Arrived) -> list[LetterRequested]:
    return [LetterRequested(name=arrived.name)]


@visits.on(Left)
def _end(_visit: Visit, left: Left) -> list[Ended]:
    return [Ended(name=left.name)]


@visits.on(LetterSent)
def _quiet(_visit: Visit, _sent: LetterSent) -> list[Never]:
    return []


@visits.effect(LetterRequested)
async def _send(event: LetterRequested) -> LetterSent:
    return LetterSent(name=event.name)


def _standing(visit: Visit) -> SagaState:
    return SagaState("over" if visit.over else "here", visit.over)


APP = Choreography("visiting", [Service("host", deciders=[visits])], sagas=SagaStates(visits, _standing))


async def fill(url: str, name: str) -> None:
    """Let another service run on a log, then somebody arrive, and only then the host start."""
    async with open_log(url, older()) as log:
        await handle_all(log)
    async with open_log(url, APP) as log:
        await log.publish(Arrived(name=name))
    await served(url)


async def served(url: str, *events: Left) -> None:
    """Publish what happens, and let the host handle it."""
    async with open_log(url, APP) as log:
        for event in events:
            await log.publish(event)
        await handle_all(log)
