"""Letters: a name, an address and more of a person, encrypted with that person's key, until the person is forgotten."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

from eventlib import Choreography, Decider, Event, Retry, Service
from eventlib.personal import Personal

Text = Personal(subject="customer_id")


class LetterSubmitted(Event, topic="letter.requests", key="letter_id", request=True):
    letter_id: str
    customer_id: str
    name: Annotated[str, Text]
    street: Annotated[str, Text]
    city: Annotated[str, Text]
    email: Annotated[str, Text] = ""
    phone: Annotated[str | None, Text] = None
    kind: str = "standard"


class StampRequested(Event, topic="letters", key="letter_id"):
    letter_id: str
    customer_id: str
    name: Annotated[str, Text]
    street: Annotated[str, Text]
    city: Annotated[str, Text]


class LetterPosted(Event, topic="letters", key="letter_id", final=True):
    letter_id: str


class LetterReturned(Event, topic="letters", key="letter_id", final=True, failure=True):
    letter_id: str
    reason: str


@dataclass(frozen=True)
class Letter:
    customer_id: str = ""
    name: Annotated[str, Text] = ""
    email: Annotated[str, Text] = ""
    phone: Annotated[str | None, Text] = None
    status: str = ""


class Post(Protocol):
    async def deliver(self, letter_id: str, address: str) -> bool:
        """Deliver a letter once; False when the address does not exist."""
        ...


letters = Decider("letter", state=Letter, key="letter_id")


@letters.evolve
def evolve(letter: Letter, event: Event) -> Letter:
    match event:
        case LetterSubmitted(customer_id=customer_id, name=name, email=email, phone=phone):
            return Letter(customer_id, name, email, phone, "submitted")
        case LetterPosted():
            return replace(letter, status="posted")
        case LetterReturned():
            return replace(letter, status="returned")
        case _:
            return letter


@letters.on
def stamp(_letter: Letter, asked: LetterSubmitted) -> list[StampRequested]:
    if asked.kind == "unknown":
        raise ValueError(f"no stamp for the letter to {asked.name}, {asked.street}")  # an error that quotes a person
    return [
        StampRequested(
            letter_id=asked.letter_id,
            customer_id=asked.customer_id,
            name=asked.name,
            street=asked.street,
            city=asked.city,
        )
    ]


def undelivered(asked: StampRequested) -> LetterReturned:
    return LetterReturned(letter_id=asked.letter_id, reason="undelivered")


@letters.effect(StampRequested, retry=Retry(attempts=3, first_pause_s=0.01), otherwise=undelivered)
async def deliver(asked: StampRequested, post: Post) -> LetterPosted | LetterReturned:
    address = f"{asked.name}, {asked.street}, {asked.city}"
    if await post.deliver(asked.letter_id, address):
        return LetterPosted(letter_id=asked.letter_id)
    return LetterReturned(letter_id=asked.letter_id, reason="refused")


letters.follows(LetterPosted, LetterReturned)


class Letterbox:
    """A post that delivers every letter."""

    async def deliver(self, letter_id: str, address: str) -> bool:  # noqa: ARG002  it goes everywhere
        """Deliver a letter."""
        return True


@asynccontextmanager
async def ports(_url: str) -> AsyncIterator[Mapping[str, object]]:
    yield {"post": Letterbox()}


app = Choreography("letters", [Service("letters", deciders=[letters], effects="all")], ports=ports)
