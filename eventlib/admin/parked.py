"""What is parked, listed and shown by the admin API."""

from dataclasses import replace
from typing import Annotated

from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field

from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.identity.principal import READERS, allow
from eventlib.model.event import Event
from eventlib.model.personal import masked
from eventlib.operations.act import Desk
from eventlib.operations.as_json import parking_json, waiting_json
from eventlib.operations.parked_acts import Retry
from eventlib.queries.parked import ParkedQuery, WaitingInput, parkings, waiting_inputs

_MOST_LISTED = 1_000


class ListQuery(BaseModel):
    """Which parked keys and effects to list, and how many."""

    model_config = ConfigDict(extra="forbid")

    service: list[str] = Field(default_factory=list)
    decider: list[str] = Field(default_factory=list)
    reason_matches: Annotated[
        str | None, Field(max_length=1_000, description="Where the reason matches this regular expression.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=_MOST_LISTED)] = 100


def add_parked(app: FastAPI, log: EventLog) -> None:
    """Add the routes that list what is parked, and show one."""

    @app.get("/parked")
    @allow(*READERS)
    async def list_parked(wanted: Annotated[ListQuery, Query()]) -> dict[str, object]:
        """List what is parked, oldest first."""
        query = ParkedQuery.of(log, wanted.service, wanted.decider, wanted.reason_matches)
        found = await parkings(log, wanted=query)
        return {"count": len(found), "parked": [parking_json(each) for each in found[: wanted.limit]]}

    @app.get(f"/parked/{{service}}/{{decider}}/{KEY}")
    @allow(*READERS)
    async def show(
        service: str,
        decider: str,
        key: str,
        caller: Caller,
        limit: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 100,
    ) -> dict[str, object]:
        """Show one parked key or effect, and the inputs that wait behind it; personal fields masked for an auditor."""
        (parking,) = (await Retry(service=service, decider=decider, key=key).select(Desk(log, ""))).ready
        waiting = await waiting_inputs(log, parking, limit)
        seen = waiting if caller.sees_personal else [_masked(each) for each in waiting]
        return {**parking_json(parking), "inputs": [waiting_json(parking, each) for each in seen]}


def _masked(waiting: WaitingInput) -> WaitingInput:
    value = waiting.reading.value
    if not isinstance(value, Event):
        return waiting
    return replace(waiting, reading=waiting.reading._replace(value=masked(value)))
