"""The admin API on a log: operators act, auditors look; `/healthz`, which reports only what status's exit code does, is public."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from eventlib.admin.acts import add_act
from eventlib.admin.deployment_previews import DeploymentPreviews
from eventlib.admin.errors import answer_errors
from eventlib.admin.reading import add_deployments, add_parked, add_reruns, add_status
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.body_limit import StrictRoute
from eventlib.http.gate import guard
from eventlib.identity.identity import Identity, identity_of
from eventlib.identity.principal import Role
from eventlib.operations.act import Desk
from eventlib.operations.every_act import ACTS
from eventlib.operations.reprocessing.jobs import RerunJobs
from eventlib.operations.startup_waits import STATE_DIR
from eventlib.operations.status import StatusReader

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
    jobs, previews = RerunJobs(log, state_dir), DeploymentPreviews(log, app_name)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await previews.close()
        await jobs.close()

    title = f"{log.choreography.name}: admin"
    app = FastAPI(
        title=title, docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan, max_body_size=LARGEST_BODY
    )
    answer_errors(app)
    app.router.route_class = StrictRoute
    add_status(app, log, StatusReader(log, state_dir=state_dir))
    add_deployments(app, log, previews)
    add_parked(app, log)
    add_reruns(app, log, jobs)
    for act in ACTS:
        add_act(app, lambda by: Desk(log, by, reruns=jobs), act)
    guard(app, identity.with_tokens("admin-token", tokens, Role.OPERATOR))
    return app
