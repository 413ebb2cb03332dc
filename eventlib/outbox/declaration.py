"""What an outbox is, whatever keeps an application's data: which events it may put, and which relay brings them to the log."""

from collections.abc import Iterable
from typing import Any

from eventlib.errors import ContractError, WiringError
from eventlib.ground.arguments import AN_APP, AN_EVENT, check, check_class, check_each
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.outbox.rows import refuse_unpublished, rows_of
from eventlib.publication import Publication

NAME = "outbox"
"""The name of an outbox, and of its relay, that was given none."""


class Outbox:
    """An outbox of a choreography, in a database that `eventlib outbox relay --name NAME` reads.

    `puts` are the events that it may put, for `eventlib graph` and `check`; without them it may put any that is published.
    """

    def __init__(self, choreography: Choreography, puts: Iterable[type[Event]] = (), *, name: str = NAME) -> None:
        check(choreography, Choreography, "choreography", AN_APP)
        refuse_name(name, "name=")
        self.choreography, self.name = choreography, name
        self.puts = check_each(puts, type, "puts", AN_EVENT)
        for number, event in enumerate(self.puts):
            check_class(event, Event, f"puts[{number}]", AN_EVENT)
            try:
                refuse_unpublished(choreography, event)
            except (ContractError, WiringError) as error:
                raise WiringError(f"outbox {name}: puts[{number}]: {error}") from error

    def _rows(self, events: Iterable[Event | Publication]) -> list[dict[str, Any]]:
        found = list(events)
        for each in found if self.puts else ():
            event = type(each.event if isinstance(each, Publication) else each)
            if event not in self.puts:
                known = ", ".join(contract_of(one).type for one in self.puts)
                raise ContractError(f"outbox {self.name} puts {known}, and not {event.__name__}: add it to puts=")
        return rows_of(self.choreography, found)


def refuse_name(name: str, where: str) -> None:
    """Refuse what is no name of an outbox. Raises: WiringError."""
    if not name.replace("-", "").replace("_", "").isalnum():
        raise WiringError(f"{where} {name!r}: a name is made of letters, digits, '-' and '_'")


def outbox_of(named: str, found: object) -> Outbox:
    """Return what was imported as an outbox. Raises: WiringError when it is none, or does not say what it puts."""
    if not isinstance(found, Outbox):
        raise WiringError(f"{named} is a {type(found).__name__}, not an outbox: name one")
    if not found.puts:
        raise WiringError(f"outbox {found.name} does not say what it puts: give it puts=[OneEvent, AnotherEvent]")
    return found
