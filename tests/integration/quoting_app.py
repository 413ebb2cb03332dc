"""Visits to people, by code that fails in every place, and quotes a person in its error: in which, `where` says."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import ValidationInfo, field_validator
from sqlalchemy import MetaData, delete, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from eventlib import Choreography, Decider, Event, OutcomeUnknown, Retry, Service, TerminalError, WiringError
from eventlib.model.record import Record
from eventlib.personal import Personal
from eventlib.queries.projection_file import View
from eventlib.sinks import SqlSink

Text = Personal(subject="person_id")


class VisitAsked(Event, topic="visit.requests", key="visit_id", request=True):
    visit_id: str
    person_id: str
    name: Annotated[str, Text]
    street: Annotated[str, Text]
    email: Annotated[str, Text]
    where: str = ""

    @field_validator("where")
    @classmethod
    def _is_known(cls, where: str, info: ValidationInfo) -> str:
        if where == "nowhere":
            raise ValueError(f"{info.data['name']} is nowhere")
        return where


class VisitBegun(Event, topic="visits", key="visit_id"):
    """It has no personal data, and what answers it has."""

    visit_id: str
    person_id: str
    where: str


class PersonMet(Event, topic="visits", key="visit_id", final=True):
    visit_id: str
    person_id: str
    name: Annotated[str, Text]


@dataclass(frozen=True)
class Visit:
    person_id: str = ""
    name: Annotated[str, Text] = ""


visits = Decider("visit", state=Visit, key="visit_id")


@visits.evolve
def evolve(visit: Visit, event: Event) -> Visit:
    match event:
        case VisitAsked(where="evolve", name=name):
            raise LookupError(f"{name} does not evolve")
        case VisitAsked(person_id=person_id, name=name):
            return Visit(person_id, name)
        case _:
            return visit


@visits.on
def begin(visit: Visit, asked: VisitAsked) -> list[VisitBegun]:
    if asked.where == "handler":
        raise ValueError(f"{asked.name} of {asked.street} is not visited") from KeyError(visit.name)
    return [VisitBegun(visit_id=asked.visit_id, person_id=asked.person_id, where=asked.where)]


class Doors:
    """A port that knows who lives where, and says so when it fails."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    async def open(self, person_id: str, where: str) -> str:
        name = self.names[person_id]
        if where == "effect":
            raise TerminalError(f"{name} is not at home")
        if where == "port":
            raise OSError(f"the door of {name} is locked")
        return name


@visits.effect(VisitBegun, retry=Retry(attempts=2, first_pause_s=0.01))
async def visit(begun: VisitBegun, doors: Doors) -> PersonMet:
    name = await doors.open(begun.person_id, begun.where)
    return PersonMet(visit_id=begun.visit_id, person_id=begun.person_id, name=name)


visits.follows(PersonMet)

app = Choreography("visits", [Service("visits", deciders=[visits], effects="all")])


AWAY = {each.__name__: each for each in (OSError, TimeoutError, OutcomeUnknown, WiringError)}
"""Errors of handlers of sinks that are tried again, or end the sink."""


class Base(DeclarativeBase):
    metadata = MetaData()


class Guest(Base):
    __tablename__ = "guests"
    visit_id: Mapped[str] = mapped_column(primary_key=True)
    person_id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]


guests = SqlSink("guests", app, tables=Base.metadata)


@guests.on
def enter(asked: VisitAsked, session: Session) -> None:
    if asked.where == "sink":
        raise ValueError(f"{asked.name} is not let in\nbehind the first line: {asked.street}")
    if asked.where in AWAY:
        raise AWAY[asked.where](f"nobody answers for {asked.name}")
    if asked.where == "trigger":  # as a trigger refuses a row
        session.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'not {asked.name.replace(chr(39), '')}'; END $$"))
    if asked.where == "cast":
        session.execute(text("SELECT CAST(:name AS integer)"), {"name": asked.name})
    person_id = "the same" if asked.where == "batch" else asked.person_id
    session.add(Guest(visit_id=asked.visit_id, person_id=person_id, name=asked.name))


@guests.on
def leave(begun: VisitBegun, session: Session) -> None:
    guest = session.get(Guest, begun.visit_id)
    if guest is not None and begun.where == "table":
        raise LookupError(f"{guest.name} does not leave")


@guests.on_erasure
def strike(person_id: str, session: Session) -> None:
    session.execute(delete(Guest).where(Guest.person_id.in_((person_id, "the same"))))


def note(db: sqlite3.Connection, record: Record, event: object) -> Iterable[str]:
    if isinstance(event, VisitAsked) and event.where == "view":
        raise ValueError(f"{event.name} is not noted")
    db.execute("INSERT INTO noted VALUES (?)", (record.subject,))
    return ()


NOTED = View("noted", topics=["visit.requests"], tables="CREATE TABLE noted (visit_id TEXT)", apply=note)
PLACES = ("", "handler", "evolve", "effect", "port", "sink", "trigger", "cast", "batch", "table", "view", "hook")
