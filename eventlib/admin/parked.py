"""The admin API's acts on what is parked: listed, shown, tried again, edited, discarded; or only previewed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query
from pydantic import Field

from eventlib.admin.bodies import ActBody, Body
from eventlib.eventlog import EventLog
from eventlib.http.gate import Caller
from eventlib.http.paths import KEY
from eventlib.identity.principal import READERS, Principal, Role, allow
from eventlib.model.event import Event, Position
from eventlib.model.personal import masked
from eventlib.operations.as_json import parking_json, previews_json, waiting_json
from eventlib.operations.command_status import send_retries
from eventlib.operations.dry_run import refuse_moved
from eventlib.operations.parked_commands import (
    apart_from_paused,
    event_with,
    request_discard,
    request_edit,
    request_retry,
)
from eventlib.operations.parked_preview import (
    Preview,
    preview_discards,
    preview_edit,
    preview_retries,
    token_of_previews,
)
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, named, parkings, waiting_inputs

_MOST_LISTED = 1_000
Ignored = Annotated[str | None, Field(max_length=200, description="Ignored: who acts follows from the token.")]


class _OperatorRequest(ActBody):
    """What all requests have."""

    by: Ignored = None

    @property
    def is_preview(self) -> bool:
        """Whether it has to be known what would happen."""
        return self.dry_run or bool(self.as_previewed)


class Retry(_OperatorRequest):
    """A request to handle something again, and why."""

    reason: Annotated[str, Field(max_length=2_000)] = ""


class Edit(_OperatorRequest):
    """New data for the first input of a parked key: all of it, or some fields."""

    data: dict[str, object] | None = None
    fields: dict[str, object] = Field(default_factory=dict, alias="set")
    reason: str = ""


class Discard(_OperatorRequest):
    """Why a parked input or effect is discarded."""

    reason: Annotated[str, Field(min_length=1, max_length=2_000)]


class Selection(Body):
    """Which parked keys and effects are selected, as query parameters."""

    service: list[str] = Field(default_factory=list)
    decider: list[str] = Field(default_factory=list)
    reason_matches: Annotated[
        str | None, Field(max_length=1_000, description="Where the reason matches this regular expression.")
    ] = None

    def on(self, log: EventLog) -> ParkedQuery:
        """Return the query for a log. Raises: WiringError, ContractError."""
        return ParkedQuery.of(log, self.service, self.decider, self.reason_matches)


class ListQuery(Selection):
    """Which parked keys and effects to list, and how many."""

    limit: Annotated[int, Field(ge=1, le=_MOST_LISTED)] = 100


class ParkedHandlers:
    """The request handlers of what is parked on one log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    @allow(*READERS)
    async def list_parked(self, selection: Annotated[ListQuery, Query()]) -> dict[str, object]:
        """List what is parked, oldest first."""
        found = await parkings(self._log, wanted=selection.on(self._log))
        return {"count": len(found), "parked": [parking_json(each) for each in found[: selection.limit]]}

    @allow(*READERS)
    async def show(
        self,
        service: str,
        decider: str,
        key: str,
        caller: Caller,
        limit: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 100,
    ) -> dict[str, object]:
        """Show one parked key or effect, and the inputs that wait behind it; personal fields masked for an auditor."""
        parking = await self._one(service, decider, key)
        waiting = await waiting_inputs(self._log, parking, limit)
        seen = waiting if caller.sees_personal else [_masked(each) for each in waiting]
        return {**parking_json(parking), "inputs": [waiting_json(parking, each) for each in seen]}

    @allow(Role.OPERATOR)
    async def retry_all(
        self, request: Retry, selection: Annotated[Selection, Query()], caller: Caller
    ) -> dict[str, object]:
        """Request that all selected are handled again; pending requests are not repeated."""
        every = await parkings(self._log, wanted=selection.on(self._log))
        found, left_out = await apart_from_paused(self._log, every)
        if request.is_preview and (seen := self._answer(request, await preview_retries(self._log, found), caller)):
            return seen
        requests, new = await send_retries(self._log, found, caller.by, request.reason.strip())
        answer: dict[str, object] = {"asked": new, "asked_already": len(requests) - new}
        if left_out:
            answer["left_out"] = [parking_json(each.parking) | {"why": each.why} for each in left_out]
        return answer

    @allow(Role.OPERATOR)
    async def retry(self, service: str, decider: str, key: str, request: Retry, caller: Caller) -> dict[str, object]:
        """Request that one is handled again."""
        parking = await self._one(service, decider, key)
        if request.is_preview and (seen := self._answer(request, await preview_retries(self._log, [parking]), caller)):
            return seen
        return _accepted(parking, await request_retry(self._log, parking, caller.by, request.reason.strip()))

    @allow(Role.OPERATOR)
    async def edit(self, service: str, decider: str, key: str, request: Edit, caller: Caller) -> dict[str, object]:
        """Request that a key's first input is handled with other data, and then those behind it."""
        parking = await self._one(service, decider, key)
        event = await event_with(self._log, parking, request.data, request.fields)
        if request.is_preview and (
            seen := self._answer(request, [await preview_edit(self._log, parking, event)], caller)
        ):
            return seen
        return _accepted(parking, await request_edit(self._log, parking, event, caller.by, request.reason))

    @allow(Role.OPERATOR)
    async def discard(
        self, service: str, decider: str, key: str, request: Discard, caller: Caller
    ) -> dict[str, object]:
        """Discard a key's first input, or an effect, permanently."""
        parking = await self._one(service, decider, key)
        if request.is_preview and (seen := self._answer(request, await preview_discards(self._log, [parking]), caller)):
            return seen
        return _accepted(parking, await request_discard(self._log, parking, caller.by, request.reason))

    def _answer(
        self, request: _OperatorRequest, found: Sequence[Preview], caller: Principal
    ) -> dict[str, object] | None:
        """Return the answer to a dry run; None where the act may go on. Raises: ContractError when the log has moved on."""
        if request.dry_run:
            previews = previews_json(self._log, found, personal=caller.sees_personal)
            return {"done": False, "as_previewed": token_of_previews(found), "previews": previews}
        refuse_moved(request.as_previewed, token_of_previews(found))
        return None

    async def _one(self, service: str, decider: str, key: str) -> Parking:
        wanted = ParkedQuery.of(self._log, [service], [decider], None)
        found = named(await parkings(self._log, wanted=wanted), key)
        if not found:
            raise HTTPException(404, f"nothing is parked for {decider} {key}")
        if len(found) > 1:
            raise HTTPException(409, f"name one of {', '.join(each.id or each.key for each in found)}")
        return found[0]


def _masked(waiting: WaitingInput) -> WaitingInput:
    value = waiting.reading.value
    if not isinstance(value, Event):
        return waiting
    return replace(waiting, reading=waiting.reading._replace(value=masked(value)))


def _accepted(parking: Parking, position: Position) -> dict[str, object]:
    at = {"topic": position.topic, "partition": position.partition, "offset": position.offset}
    return {"service": parking.service, "decider": parking.decider, "key": parking.key, "id": parking.id, "asked": at}


def add_parked(app: FastAPI, log: EventLog) -> None:
    """Add the routes of what is parked."""
    handlers, one = ParkedHandlers(log), f"/parked/{{service}}/{{decider}}/{KEY}"
    app.get("/parked")(handlers.list_parked)
    app.post("/parked/retry", status_code=202)(handlers.retry_all)
    app.get(one)(handlers.show)
    app.post(f"{one}/retry", status_code=202)(handlers.retry)
    app.post(f"{one}/edit", status_code=202)(handlers.edit)
    app.post(f"{one}/discard", status_code=202)(handlers.discard)
