"""The console on a log: pages for operators and auditors, behind the gate that every server has."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from eventlib.admin.deployment_previews import DeploymentPreviews
from eventlib.admin.errors import answer_errors
from eventlib.analysis.connectors import Connector
from eventlib.config.console import ConsoleOptions
from eventlib.console.browser import Browser
from eventlib.console.choreography_page import TrafficWatch, choreography_routes
from eventlib.console.compare_page import compare_routes
from eventlib.console.deployment_page import deployment_routes
from eventlib.console.forms import CONTENT_TYPE
from eventlib.console.login import IssuerLogin, login_routes
from eventlib.console.overview import act_routes, overview_routes
from eventlib.console.parked_acts import Batches, parked_act_routes, saga_act_routes
from eventlib.console.parked_page import parked_routes
from eventlib.console.pause_page import pause_routes, reset_routes
from eventlib.console.reading import ConsoleIndex, SagaReader, StatusWatch, live_routes
from eventlib.console.rendering import ASSETS, Pages
from eventlib.console.rerun_pages import rerun_routes
from eventlib.console.saga_list import SagaList, saga_list_routes
from eventlib.console.saga_page import saga_page_routes
from eventlib.console.send_page import send_routes
from eventlib.console.sessions import SessionIdentity
from eventlib.console.topics_page import record_routes, topic_routes
from eventlib.eventlog import EventLog
from eventlib.http.gate import Gate
from eventlib.identity.principal import READERS, allow, public
from eventlib.operations.acts import ActIndex
from eventlib.operations.reprocessing.jobs import RerunJobs

_AT_ONCE = 200
"""How many records an index takes in before pages are answered again, while it is made from a long log."""
_KEPT = "public, max-age=31536000, immutable"


def create_console(
    log: EventLog,
    identity: SessionIdentity,
    options: ConsoleOptions | None = None,
    *,
    state_dir: str = "var",
    connectors: Sequence[Connector] = (),
    app_name: str | None = None,
) -> FastAPI:
    """Return the console on a log, which opens its own index with its lifespan.

    `state_dir` is where processes of this machine keep their local stores; `connectors` stand in the picture of the
    choreography, too; `app_name` is the application's (`module:name`), if it is not the one of pyproject.toml.
    Guarantee: a page shows nothing that its caller's roles do not see, and a browser asks no other host for anything.
    Raises: WiringError.
    """
    options = options or ConsoleOptions()
    app = FastAPI(
        title=f"{log.choreography.name}: console", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_opened
    )
    pages = Pages(log.choreography.name, identity.seals)
    search = ConsoleIndex(log)
    reader, watch, traffic = SagaReader(search), StatusWatch(log, state_dir), TrafficWatch(log, connectors)
    sagas, batches = SagaList(search), Batches(log)
    jobs, previews = RerunJobs(log, state_dir), DeploymentPreviews(log, app_name)
    app.state.pages, app.state.traffic, app.state.jobs, app.state.previews = pages, traffic, jobs, previews
    app.state.index = search
    search.batch, search.waits_for_topics = _AT_ONCE, True
    issuer = None if options.client_id is None else IssuerLogin(identity, options)
    app.include_router(login_routes(pages, identity, issuer))
    for routes in (
        saga_list_routes(pages, sagas),
        saga_act_routes(pages, search, batches),
        saga_page_routes(pages, reader, search, watch, options.trace_url),
        compare_routes(pages, reader, search),
        parked_act_routes(pages, batches),
        parked_routes(pages, log, watch, search),
        record_routes(pages, reader),
        overview_routes(pages, log, watch, search),
        choreography_routes(pages, traffic, search),
        topic_routes(pages, log),
        send_routes(pages, log),
        act_routes(pages, ActIndex(log, search)),
        rerun_routes(pages, log, jobs),
        reset_routes(pages, log, jobs),
        pause_routes(pages, log),
        deployment_routes(pages, search, previews),
        live_routes(search),
    ):
        app.include_router(routes)
    _serve_files(app, pages)
    answer_errors(app)
    app.state.has_gate = True
    app.add_middleware(Gate, identity=identity, content_types=(CONTENT_TYPE,))
    app.add_middleware(Browser, page=lambda request, status, detail: _error_page(pages, request, status, detail))
    return app


@asynccontextmanager
async def _opened(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.state.index)
        await stack.enter_async_context(app.state.traffic.opened())
        stack.push_async_callback(app.state.jobs.close)
        stack.push_async_callback(app.state.previews.close)
        yield


def _serve_files(app: FastAPI, pages: Pages) -> None:
    @app.get("/static/{name}")
    @public
    async def file(name: str) -> Response:
        if name not in ASSETS:
            return Response(status_code=404)
        return Response(pages.content(name), media_type=ASSETS[name][1], headers={"cache-control": _KEPT})

    @app.get("/healthz")
    @app.get("/readyz")
    @public
    async def healthz() -> Response:
        return Response(status_code=200 if app.state.index.error is None else 503)

    @app.get("/")
    @allow(*READERS)
    async def root() -> Response:
        return RedirectResponse("/overview", 303)


def _error_page(pages: Pages, request: Request, status: int, detail: str) -> Response:
    return pages.render(request, "error.html", status, status=status, detail=detail)
