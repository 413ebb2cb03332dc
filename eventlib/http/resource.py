"""The operations of a saga that one request begins: ask for it, once; read its state; watch its events."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from eventlib.errors import WiringError
from eventlib.http.gate import Caller
from eventlib.http.problems import documented
from eventlib.http.reads import HOW_CURRENT, PREFERENCE_APPLIED, MinPosition, Prefer
from eventlib.http.requests import IdempotencyKey
from eventlib.http.saga_events import Shown
from eventlib.identity.principal import Role, allow
from eventlib.model.event import Event
from eventlib.model.signatures import name_of

if TYPE_CHECKING:
    from eventlib.http.api import SagaApi

LastEventId = Annotated[str | None, Header(max_length=10_000, description="Go on after this one.")]
_HOW = "write `def requested(ticket_id: str, wanted: WantedTicket) -> TicketRequested`, and shown(state) -> ShownTicket"


def resource_routes(
    api: "SagaApi[Any]",
    path: str,
    requested: Callable[[str, Any], Event],
    shown: Callable[[Any], BaseModel],
    roles: tuple[tuple[Role, ...], tuple[Role, ...]],
) -> APIRouter:
    """Return the routes of `SagaApi.resource`; `roles` are who may ask, and who may read."""
    body, model = _model(requested, 1), _model(shown, None)
    name = path.strip("/")
    routes, (may_ask, may_read) = api.routes(name), roles
    key_in_path = Annotated[str, Path(alias=str(api.index.decider.key), max_length=200)]
    one = f"/{name}/{{{api.index.decider.key}}}"

    async def ask(
        request: Request, wanted: Any, caller: Caller, key: IdempotencyKey = None, prefer: Prefer = None
    ) -> Response:
        del prefer  # read by `preferred`, in all its forms

        async def make(saga_key: str) -> Event:
            return requested(saga_key, wanted)

        accepted = await api.submit(wanted, key, caller, make)
        headers = await api.reads.preferred(request, accepted.key, lambda: api.events.has_ended(accepted.key))
        answer = {str(api.index.decider.key): accepted.key, "position": accepted.place.text}
        headers["Location"] = f"{request.scope.get('root_path', '')}/{name}/{accepted.key}"
        return JSONResponse(answer, 202, headers)

    async def read(key: Any, response: Response, min_position: MinPosition = None) -> Any:
        await api.reads.wait_for(min_position)
        response.headers.update(await api.reads.how_current())
        row = await api.index.current(key, api.config.decision_s)
        if row is None:
            raise api.events.unknown(key)
        return shown(row.state)

    async def events(request: Request, key: Any, caller: Caller, last_event_id: LastEventId = None) -> Response:
        return await api.events.stream(key, last_event_id, request.scope, Shown(personal=caller.sees_personal))

    ask.__annotations__["wanted"] = body
    for each in (read, events):
        each.__annotations__["key"] = key_in_path
    read.__annotations__["return"] = model
    accepted_as = {"headers": PREFERENCE_APPLIED, "description": "It is on the log; the decision may be there."}
    routes.post(f"/{name}", status_code=202, responses={202: accepted_as, **documented(401, 403, 422, 429, 503)})(
        allow(*may_ask)(ask)
    )
    found_as = {"headers": HOW_CURRENT, "description": "What was found."}
    routes.get(one, responses={200: found_as, **documented(401, 403, 404, 422, 429, 503)})(allow(*may_read)(read))
    routes.get(f"{one}/events", responses=documented(401, 403, 404, 422, 429, 503))(allow(*may_read)(events))
    return routes


def _model(function: Callable[..., object], parameter: int | None) -> type[BaseModel]:
    """Return the model that a function takes as a parameter, or returns (None). Raises: WiringError."""
    hints = get_type_hints(function)
    returned = hints.pop("return", None)
    taken = [*hints.values()]
    model = returned if parameter is None else (taken[parameter] if parameter < len(taken) else None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise WiringError(f"{name_of(function)} is annotated with no model where a resource needs one: {_HOW}")
    return model
