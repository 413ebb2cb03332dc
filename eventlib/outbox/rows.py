"""An outbox, whatever keeps an application's data: its table, and what an event is between its transaction and the log."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from json import dumps
from secrets import token_hex
from typing import Any

from pydantic import ValidationError

from eventlib.codec.formats import format_of
from eventlib.errors import ContractError, WiringError
from eventlib.eventlog import CALLER
from eventlib.ground.arguments import AN_APP, AN_EVENT, check, check_class, check_each
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.json_form import json_text, read_json
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.schema.derive import record_of
from eventlib.operations.sending import refuse_facts, refuse_masked
from eventlib.publication import Publication, headers_of
from eventlib.values import escaped

# The trigger gives out the ids, after it has waited for the other transactions that put an event of the same key: so the ids
# of a key are in the order of its commits, whichever program inserts. Those of different keys need no order.
STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS eventlib_outbox (
  id bigint PRIMARY KEY, idempotency_key text NOT NULL, type text NOT NULL, topic text NOT NULL, key text,
  body text NOT NULL, headers text NOT NULL DEFAULT '{}', traceparent text,
  put_at timestamptz NOT NULL DEFAULT clock_timestamp(), error text
)""",
    "CREATE SEQUENCE IF NOT EXISTS eventlib_outbox_ids OWNED BY eventlib_outbox.id",
    "CREATE INDEX IF NOT EXISTS eventlib_outbox_held ON eventlib_outbox (topic, key) WHERE error IS NOT NULL",
    """CREATE OR REPLACE FUNCTION eventlib_outbox_put() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.key IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.topic || '/' || NEW.key, 1702261346));
  END IF;
  NEW.id := nextval(quote_ident(TG_TABLE_SCHEMA) || '.eventlib_outbox_ids');
  RETURN NEW;
END $$""",
    """CREATE OR REPLACE TRIGGER eventlib_outbox_put BEFORE INSERT ON eventlib_outbox
  FOR EACH ROW EXECUTE FUNCTION eventlib_outbox_put()""",
)

TABLE_SQL = "".join(f"{each};\n" for each in STATEMENTS)
"""PostgreSQL statements that make the table, for a migration; made again, they change nothing."""

_COLUMNS = ("idempotency_key", "type", "topic", "key", "body", "headers", "traceparent")
INSERT_SQL = (
    f"INSERT INTO eventlib_outbox ({', '.join(_COLUMNS)}) VALUES ({', '.join(f'%({name})s' for name in _COLUMNS)})"  # noqa: S608
)
"""The statement that puts a row, in the style of psycopg."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An event that waits for the relay; `headers` and `body` are JSON."""

    id: int
    idempotency_key: str
    type: str
    topic: str
    key: str | None
    body: str
    headers: str
    traceparent: str | None


def rows_of(choreography: Choreography, events: Iterable[Event | Publication]) -> list[dict[str, Any]]:
    """Return the columns of rows that put events into the outbox, sorted by key, those of a key in their order.

    So transactions that put several keys at once wait for each other in one order, and none of them is given up for it.
    A `Publication` is an event with its idempotency key and headers; without a key of its own it gets a random one.
    Raises: ContractError for anything that `publish` would refuse, for an event that a decider emits, and for a partition.
    """
    rows = [_row(choreography, each if isinstance(each, Publication) else Publication(each)) for each in events]
    return sorted(rows, key=lambda row: (row["topic"], row["key"] or ""))


def _row(choreography: Choreography, publication: Publication) -> dict[str, Any]:
    event = publication.event
    contract = contract_of(type(event))
    refuse_unpublished(choreography, type(event))
    refuse_masked(event)
    if publication.partition is not None:
        raise ContractError(f"partition={publication.partition}: what is put in an outbox is partitioned by its key")
    headers_of(publication)
    _writer_of(type(event))(event)  # what its relay could not bring is refused now
    key = key_of(event)
    return {
        "idempotency_key": publication.idempotency_key or token_hex(16),
        "type": contract.type,
        "topic": contract.topic.name,
        "key": None if key is None else escaped(key),  # as PostgreSQL's text can have it; it only keeps the order
        "body": json_text(event),
        "headers": dumps(dict(publication.headers)),
        "traceparent": CALLER.get(),
    }


@lru_cache(maxsize=1_024)
def _writer_of(event_type: type[Event]) -> Callable[[Any], bytes]:
    return format_of(contract_of(event_type).topic.format.upper()).writer(record_of(event_type), b"")


def refuse_unpublished(choreography: Choreography, event: type[Event]) -> None:
    """Refuse an event that a choreography does not publish. Raises: ContractError."""
    contract = contract_of(event)
    if contract.external is not None or choreography.event(contract.type) is not event:
        raise ContractError(f"{contract.type} is not an event that {choreography.name} publishes")
    refuse_facts(choreography, event)


def event_in(row: OutboxRow, choreography: Choreography) -> Event:
    """Return the event in a row. Raises: ContractError when today's contract does not fit it."""
    try:
        return read_json(choreography.event(row.type), row.body)
    except WiringError as error:
        raise ContractError(str(error)) from error
    except ValidationError as error:
        raise ContractError(f"{row.type} does not fit: {sentence_of(error)}") from error


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
