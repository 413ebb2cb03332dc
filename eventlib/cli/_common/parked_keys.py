"""Parked keys and effects: which ones a command selects, and their JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.queries.parked import ParkedQuery, Parking
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
