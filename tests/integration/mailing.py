"""A service that writes to people who have signed up, and the process that runs it: `python mailing.py URL OUTBOX …`."""

import asyncio
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Never

from eventlib import Choreography, Decider, Event, Meta, Runtime, Service, open_log


class Signed(Event, topic="signups", key="name", request=True):
    """Somebody has signed up; `remind_s` seconds later they want to hear of it again."""

    name: str
    remind_s: int | None = None


class Welcomed(Event, topic="welcomes", key="name"):
    """Somebody is known now: said by one decider, heard by another."""

    name: str


class MailRequested(Event, topic="mails", key="name"):
    """A mail shall be sent."""

    name: str
    about: str


class MailSent(Event, topic="mails", key="name"):
    """A mail was sent."""

    name: str


@dataclass(frozen=True)
class Person:
    """Somebody."""

    remind_at: datetime | None = None


class Outbox:
    """Writes a line for each mail, so that another process can count them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, line: str) -> None:
        """Send a mail."""
        with self._path.open("a") as file:
            file.write(line + "\n")


def mailing(
    effects: Literal["new", "all"] = "new",
    start_from: Literal["earliest", "latest"] = "earliest",
    broken: frozenset[str] | set[str] = frozenset(),
) -> Choreography:
    """Return the service; its handler raises for the names in `broken`, as long as they are in there."""
    people: Decider[Person] = Decider("person", state=Person, key="name")
    writers: Decider[Person] = Decider("writer", state=Person, key="name")

    @people.evolve
    def evolve(person: Person, event: Event, meta: Meta) -> Person:
        match event:
            case Signed(remind_s=int(seconds)):
                return replace(person, remind_at=meta.recorded_at + timedelta(seconds=seconds))
            case _:
                return person

    @people.on(Signed)
    def welcome(_person: Person, signed: Signed) -> list[Welcomed]:
        if signed.name in broken:
            raise RuntimeError("a bug in the handler")
        return [Welcomed(name=signed.name)]

    @people.deadline
    def remind_at(person: Person) -> datetime | None:
        return person.remind_at

    @remind_at.passed
    def remind(_person: Person, meta: Meta) -> list[MailRequested]:
        return [MailRequested(name=meta.subject, about="reminder")]

    @writers.on(Welcomed)
    def write(_person: Person, welcomed: Welcomed) -> list[MailRequested]:
        return [MailRequested(name=welcomed.name, about="welcome")]

    @writers.on(MailSent)
    def quiet(_person: Person, _sent: MailSent) -> list[Never]:
        return []

    async def send(event: MailRequested, outbox: Outbox, meta: Meta) -> MailSent:
        outbox.send(f"{event.about} {event.name} {meta.id}")
        return MailSent(name=event.name)

    people.effect(MailRequested)(send)
    writers.effect(MailRequested)(send)
    return Choreography(
        "mailing", [Service("mail", deciders=[people, writers], effects=effects, start_from=start_from)]
    )


class Noted(Event, topic="notes", key="name", request=True):
    """Something was noted."""

    name: str


def older() -> Choreography:
    """Return an application of another service, which has nothing to do with mails."""
    notes: Decider[Person] = Decider("note", state=Person, key="name")
    notes.follows(Noted)
    return Choreography("older", [Service("older", deciders=[notes])])


def both() -> Choreography:
    """Return one application of both services."""
    return Choreography("both", [*older().services, *mailing().services])


async def main(url: str, outbox: str, effects: str, start_from: str) -> None:
    """Run the service until it is killed, and say when there is nothing left to do."""
    choreography = mailing("all" if effects == "all" else "new", "latest" if start_from == "latest" else "earliest")
    ports = {"outbox": Outbox(Path(outbox))}
    async with open_log(url, choreography) as log, Runtime(log, ports=ports) as runtime:
        print("runs", flush=True)
        await runtime.idle()
        print("idle", flush=True)
        await runtime.failed()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
