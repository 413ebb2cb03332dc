"""The admin API on a log: operators act, auditors look; `/healthz`, which reports only what status's exit code does, is public."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from eventlib.admin.acts import add_act
from eventlib.admin.deployment_previews import DeploymentPreviews
from eventlib.admin.deployments import add_deployments
from eventlib.admin.parked import add_parked
from eventlib.admin.pauses import add_pauses
from eventlib.admin.reruns import add_reruns
from eventlib.errors import ContractError, EventlibError, UndecodableRecord, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.body_limit import RefusedBody, StrictRoute
from eventlib.http.gate import guard
from eventlib.http.problems import problem, refusal_of
from eventlib.identity.identity import Identity, identity_of
from eventlib.identity.principal import READERS, Role, allow, public
from eventlib.operations.act import Ambiguous, Desk, NotThere
from eventlib.operations.as_json import status_json
from eventlib.operations.every_act import ACTS
from eventlib.operations.reprocessing.jobs import RerunJobs
from eventlib.operations.startup_waits import STATE_DIR
from eventlib.operations.status import Limits, StatusReader, complaints
from eventlib.personal.base import NoRight

SHORTEST_TOKEN = 16
LARGEST_BODY = 1_000_000
"""Bytes of a request's body: an event has to fit into a record."""


def create_admin(
    log: EventLog,
    *tokens: str,
    state_dir: str = STATE_DIR,
    identity: Identity | None = None,
    app_name: str | None = None,
) -> FastAPI:
    """Return the admin API on a log; `identity` (by default that of the settings) tells who calls.

    `tokens` are further ones with the role `operator`. `state_dir` is where processes of this machine keep their local
    stores; `app_name` is the application's (`module:name`), if it is not the one of pyproject.toml. Guarantee: an act
    answered with 202 is stored on the log with the caller's name, and is done once.
    Raises: WiringError for a short token.
    """
    identity = identity or identity_of()
    is_open = identity.is_configured or identity.options.insecure
    shortest = min(map(len, tokens), default=SHORTEST_TOKEN if is_open else 0)
    if shortest < SHORTEST_TOKEN:
        raise WiringError(
            f"an admin token has {shortest} characters: EVENTLIB_ADMIN_TOKEN takes {SHORTEST_TOKEN} or more"
        )
    jobs, previews = RerunJobs(log, state_dir), DeploymentPreviews(log.port.url, app_name)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await previews.close()
        await jobs.close()

    title = f"{log.choreography.name}: admin"
    app = FastAPI(
        title=title, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, max_body_size=LARGEST_BODY
    )
    app.add_exception_handler(EventlibError, _problem)
    for kind in (RequestValidationError, RefusedBody):
        app.add_exception_handler(kind, _invalid)
    app.router.route_class = StrictRoute
    handlers = _Handlers(log, state_dir)
    app.get("/healthz")(handlers.health)
    app.get("/status")(handlers.status)
    add_deployments(app, previews)
    add_parked(app, log)
    add_pauses(app, log)
    add_reruns(app, log, jobs)
    for act in ACTS:
        add_act(app, lambda by: Desk(log, by, reruns=jobs), act)
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
        return Response(status_code=503 if complaints(await self._reader.read(), Limits()) else 200)

    @allow(*READERS)
    async def status(self) -> dict[str, object]:
        """Return the status of services."""
        status = await self._reader.read()
        return status_json(status, complaints(status, Limits()))


def _invalid(_request: Request, error: Exception) -> Response:
    return problem(refusal_of(error), None)


def _problem(_request: Request, error: Exception) -> JSONResponse:
    """Map the library's errors: 404 for an unknown name, 422 for invalid data, 503 for an unknown outcome on the log.

    403 is for personal data that this process may not write.
    """
    match error:
        case NoRight():
            code = 403
        case WiringError() | NotThere():
            code = 404
        case Ambiguous():
            code = 409
        case ContractError() if not isinstance(error, UndecodableRecord):
            code = 422
        case _:
            code = 503
    body = {"type": "about:blank", "status": code, "detail": str(error) or "the log did not answer in time"}
    headers = {"Retry-After": "1"} if code == 503 else None  # noqa: PLR2004  HTTP's
    return JSONResponse(body, code, headers, media_type="application/problem+json")
