"""People: what is known of one, in an event and in a state, with texts that are personal."""

from dataclasses import dataclass
from typing import Annotated

from eventlib import Aliases, Event
from eventlib.personal import Personal

Text = Personal(subject="person_id")


class Known(Event, topic="people", key="key"):
    key: str
    person_id: str | None
    name: Annotated[str, Text, Aliases("nom")]
    phone: Annotated[str | None, Text] = None


@dataclass(frozen=True)
class Card:
    person_id: str = ""
    name: Annotated[str, Text] = ""
    calls: int = 0
