"""The server's application: Confluent's REST API, v1."""

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlib.ground.body_limit import bounded
from eventlib.http.docs import serve_docs
from eventlib.http.front import declared_bytes
from eventlib.http.registry.levels import config_router, mode_router
from eventlib.http.registry.messages import MEDIA_TYPES, Answer, answer_errors, error_answer
from eventlib.http.registry.schemas import compatibility_router, schemas_router
from eventlib.http.registry.service import Service, admit
from eventlib.http.registry.subjects import subjects_router, versions_router
from eventlib.registry.errors import Refused

_ALIVE, _READY = "/healthz", "/readyz"
_PUBLIC = frozenset({_ALIVE, _READY})
LARGEST_BODY = 2_500_000
"""Bytes of a request's body: a schema may have a million, and twice as many when JSON escapes it."""


def make_app(service: Service) -> FastAPI:
    """Return the application of one instance."""
    app = FastAPI(
        title="Schema registry",
        description="Schemas and their versions, kept on the log. It serves the Confluent Schema Registry's REST API.",
        version="1",
        default_response_class=Answer,
        docs_url=None,
        redoc_url=None,
    )
    serve_docs(app)
    for make in (schemas_router, subjects_router, versions_router, config_router, mode_router, compatibility_router):
        app.include_router(make(service))

    @app.get("/")
    async def root() -> Answer:
        """Tell that the server runs."""
        return Answer({})

    @app.get(_READY)
    @app.get(_ALIVE)
    async def healthz() -> Answer:
        """Report that the process is well; needs no right."""
        return Answer({"status": "ok"})

    @app.get("/contexts")
    async def contexts() -> Answer:
        """List the contexts: there is the default one."""
        return Answer(["."])

    answer_errors(app)
    app.add_middleware(_Gate, service=service)
    return app


class _Gate:
    """Stands before every request: who may come, how large its body may be, and which form its answer has."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._identity = service.identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # A subject may have a slash in it, as %2F: routes go by the path as it was sent.
        scope["path"] = _routed(scope)
        request = Request(scope, receive)
        form = _form(request.headers.get("accept", "*/*"))
        answer = _answering(send, form)
        try:
            if scope["path"] not in _PUBLIC:
                await admit(self._identity, request)
            if declared_bytes(scope) > LARGEST_BODY:
                raise _TOO_LARGE
            await self._app(scope, bounded(receive, LARGEST_BODY, lambda: _TOO_LARGE), answer)
        except Refused as error:
            headers = {"WWW-Authenticate": 'Basic realm="schemas"'} if error.status == 401 else None  # noqa: PLR2004  HTTP's
            await error_answer(error, headers)(scope, receive, answer)


_TOO_LARGE = Refused(413, 413, f"HTTP 413: the body may have at most {LARGEST_BODY:,} bytes")


def _routed(scope: Scope) -> str:
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    return path.rstrip("/") or "/"


def _form(accept: str) -> str:
    wanted = {each.partition(";")[0].strip().lower() for each in accept.split(",")}
    return next((each for each in MEDIA_TYPES if each in wanted), MEDIA_TYPES[0])


def _answering(send: Send, form: str) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = MEDIA_TYPES[0].encode()
            message["headers"] = [
                (name, form.encode() if name == b"content-type" and value == ours else value)
                for name, value in message["headers"]
            ]
        await send(message)

    return answer
