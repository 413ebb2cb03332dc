"""Parked keys and effects: which ones a command selects, and their JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.json_form import json_of
from eventlib.log.record import key_text
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput
from eventlib.search.parked import parked_where

DecidersOption = Annotated[
    list[str] | None,
    typer.Option("--decider", metavar="NAME", help="Only of this decider; may be repeated.", show_default=False),
]


ReasonMatches = Annotated[
    str | None,
    typer.Option("--reason-matches", metavar="REGEX", help="Only where the reason matches.", show_default=False),
]


WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        "-w",
        metavar="QUERY",
        help="Only those for which this holds: a condition on service, decider, key, effect, reason, code_version, "
        "waiting, since and age.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Which:
    """Which parked keys and effects are selected, as it was typed."""

    services: Sequence[str] = ()
    deciders: Sequence[str] = ()
    reason: str | None = None
    where: str = ""

    def of(self, log: EventLog) -> ParkedQuery:
        """Return the query for a log. Raises: WiringError for an unknown name; ContractError, a QueryError with its place."""
        query = ParkedQuery.of(log, self.services, self.deciders, self.reason)
        return replace(query, condition=parked_where(self.where)) if self.where.strip() else query


def of_key(found: list[Parking], key: str) -> list[Parking]:
    """Return what is parked under a key, or an id. Raises: ContractError when nothing is."""
    kept = [parking for parking in found if key in {parking.key, parking.id}]
    if not kept:
        raise ContractError(f"nothing is parked under {key!r}: `eventlib parked list` shows what is")
    return kept


def parking_json(parking: Parking) -> dict[str, object]:
    """Return a parked key or effect as JSON."""
    return {**asdict(parking), "since": output.iso(parking.since), "command": parking.command}


def waiting_json(parking: Parking, waiting: WaitingInput) -> dict[str, object]:
    """Return a waiting input as JSON: its origin, and its data."""
    record, reading = waiting.record, waiting.reading
    line: dict[str, object] = {
        "service": parking.service,
        "decider": parking.decider,
        "key": key_text(record),
        "topic": record.topic or None,
        "partition": record.partition,
        "offset": record.offset if record.topic else None,
        "recorded_at": output.iso_ms(record.timestamp_ms),
        "type": record.type,
        "id": record.event_id,
        "reason": waiting.reason,
        "edited": waiting.edited_by or None,
        "data": json_of(reading.value),
    }
    if reading.error is not None:
        line |= {"error": reading.error, "bytes": (record.value or b"").hex()}
    return line
