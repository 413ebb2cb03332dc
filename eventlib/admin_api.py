"""The admin API on a log: operators act, auditors look; `/healthz`, which reports only what status's exit code does, is public."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated

from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from eventlib.admin_events import add_events
from eventlib.admin_pauses import add_pauses
from eventlib.admin_reruns import add_reruns
from eventlib.cli._common.parked_keys import parking_json, waiting_json
from eventlib.cli.status import status_json
from eventlib.errors import ContractError, EventlibError, UndecodableRecord, WiringError
from eventlib.eventlog import EventLog
from eventlib.http.body_limit import StrictRoute
from eventlib.identity.gate import Caller, guard
from eventlib.identity.identity import Identity, identity_of
from eventlib.identity.principal import Role, allow, public
from eventlib.model.event import Event, Position
from eventlib.model.personal import masked
from eventlib.operations.command_status import pending_retries
from eventlib.operations.parked_commands import (
    event_with,
    not_paused,
    request_discard,
    request_edit,
    request_retries,
    request_retry,
)
from eventlib.operations.reprocessing.jobs import RerunJobs
from eventlib.operations.reprocessing.metadata import UnknownRerun
from eventlib.operations.startup_waits import STATE_DIR
from eventlib.operations.status import Limits, StatusReader, complaints
from eventlib.personal.base import NoRight
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, parkings, waiting_inputs

SHORTEST_TOKEN = 16
_MOST_LISTED = 1_000
_LOOK = (Role.OPERATOR, Role.AUDITOR)
Ignored = Annotated[str | None, Field(max_length=200, description="Ignored: who acts follows from the token.")]


class _OperatorRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    by: Ignored = None


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


class Selection(BaseModel):
    """Which parked keys and effects are selected, as query parameters."""

    model_config = ConfigDict(extra="forbid")

    service: list[str] = []
    decider: list[str] = []
    reason_matches: Annotated[
        str | None, Field(max_length=1_000, description="Where the reason matches this regular expression.")
    ] = None

    def on(self, log: EventLog) -> ParkedQuery:
        """Return the query for a log. Raises: WiringError, ContractError."""
        return ParkedQuery.of(log, self.service, self.decider, self.reason_matches)


class ListQuery(Selection):
    """Which parked keys and effects to list, and how many."""

    limit: Annotated[int, Field(ge=1, le=_MOST_LISTED)] = 100


def create_admin(log: EventLog, *tokens: str, state_dir: str = STATE_DIR, identity: Identity | None = None) -> FastAPI:
    """Return the admin API on a log; `identity` (by default that of the settings) tells who calls.

    `tokens` are further ones with the role `operator`. `state_dir` is where processes of this machine keep their local
    stores. Guarantee: a request answered with 202 is stored on the log with the caller's name, and is done once.
    Raises: WiringError for a short token.
    """
    identity = identity or identity_of()
    is_open = identity.is_configured or identity.options.insecure
    shortest = min(map(len, tokens), default=SHORTEST_TOKEN if is_open else 0)
    if shortest < SHORTEST_TOKEN:
        raise WiringError(
            f"an admin token has {shortest} characters: EVENTLIB_ADMIN_TOKEN takes {SHORTEST_TOKEN} or more"
        )
    jobs = RerunJobs(log, state_dir)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await jobs.close()

    title = f"{log.choreography.name}: admin"
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_exception_handler(EventlibError, _problem)
    app.router.route_class = StrictRoute
    handlers = _Handlers(log, state_dir)
    app.get("/healthz")(handlers.health)
    app.get("/status")(handlers.status)
    add_events(app, log)
    app.get("/parked")(handlers.list_parked)
    app.post("/parked/retry", status_code=202)(handlers.retry_all)
    app.get("/parked/{service}/{decider}/{key:path}")(handlers.show)
    one = "/parked/{service}/{decider}/{key:path}"
    app.post(f"{one}/retry", status_code=202)(handlers.retry)
    app.post(f"{one}/edit", status_code=202)(handlers.edit)
    app.post(f"{one}/discard", status_code=202)(handlers.discard)
    add_pauses(app, log)
    add_reruns(app, log, jobs)
    guard(app, identity.with_tokens("admin-token", tokens, Role.OPERATOR))
    return app


class _Handlers:
    """The request handlers of one log."""

    def __init__(self, log: EventLog, state_dir: str) -> None:
        self._log = log
        self._reader = StatusReader(log, state_dir=state_dir)

    @public
    async def health(self) -> Response:
        """Answer 200 when healthy, else 503."""
        return Response(status_code=503 if complaints(await self._reader.look(), Limits()) else 200)

    @allow(*_LOOK)
    async def status(self) -> dict[str, object]:
        """Return the status of services."""
        status = await self._reader.look()
        return status_json(status, complaints(status, Limits()))

    @allow(*_LOOK)
    async def list_parked(self, selection: Annotated[ListQuery, Query()]) -> dict[str, object]:
        """List what is parked, oldest first."""
        found = await parkings(self._log, wanted=selection.on(self._log))
        return {"count": len(found), "parked": [parking_json(each) for each in found[: selection.limit]]}

    @allow(*_LOOK)
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
    ) -> dict[str, int]:
        """Request that all selected are handled again; pending requests are not repeated."""
        found = await not_paused(self._log, await parkings(self._log, wanted=selection.on(self._log)))
        already = await pending_retries(self._log, found)
        new = [each for each in found if each.name not in already]
        await request_retries(self._log, new, caller.by, request.reason.strip())
        return {"asked": len(new), "asked_already": len(already)}

    @allow(Role.OPERATOR)
    async def retry(self, service: str, decider: str, key: str, request: Retry, caller: Caller) -> dict[str, object]:
        """Request that one is handled again."""
        parking = await self._one(service, decider, key)
        return _accepted(parking, await request_retry(self._log, parking, caller.by, request.reason.strip()))

    @allow(Role.OPERATOR)
    async def edit(
        self, service: str, decider: str, key: str, request: Annotated[Edit, Body()], caller: Caller
    ) -> dict[str, object]:
        """Request that a key's first input is handled with other data, and then those behind it."""
        parking = await self._one(service, decider, key)
        event = await event_with(self._log, parking, request.data, request.fields)
        return _accepted(parking, await request_edit(self._log, parking, event, caller.by, request.reason))

    @allow(Role.OPERATOR)
    async def discard(
        self, service: str, decider: str, key: str, request: Discard, caller: Caller
    ) -> dict[str, object]:
        """Discard a key's first input, or an effect, permanently."""
        parking = await self._one(service, decider, key)
        return _accepted(parking, await request_discard(self._log, parking, caller.by, request.reason))

    async def _one(self, service: str, decider: str, key: str) -> Parking:
        wanted = ParkedQuery.of(self._log, [service], [decider], None)
        found = [each for each in await parkings(self._log, wanted=wanted) if key in {each.key, each.id}]
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


def _problem(_request: Request, error: Exception) -> JSONResponse:
    """Map the library's errors: 404 for an unknown name, 422 for invalid data, 503 for an unknown outcome on the log.

    403 is for personal data that this process may not write.
    """
    match error:
        case NoRight():
            code = 403
        case WiringError() | UnknownRerun():
            code = 404
        case ContractError() if not isinstance(error, UndecodableRecord):
            code = 422
        case _:
            code = 503
    body = {"type": "about:blank", "status": code, "detail": str(error) or "the log did not answer in time"}
    headers = {"Retry-After": "1"} if code == 503 else None  # noqa: PLR2004  HTTP's
    return JSONResponse(body, code, headers, media_type="application/problem+json")
