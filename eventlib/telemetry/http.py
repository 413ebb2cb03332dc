"""HTTP around an application: the span that a request's saga begins with, and the metrics of this process."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from secrets import token_hex
from time import time_ns
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from eventlib.eventlog import CALLER
from eventlib.model.identity import is_sampled, root_traceparent, sampling_bound
from eventlib.telemetry.recorder import Recorder
from eventlib.telemetry.spans import Attributes, EmittedSpan, Times, context_of, made, within

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_SERVER_ERROR = 500


class Traced:
    """An ASGI app whose requests are spans, in the caller's trace if it names one; what they publish follows from them.

    The caller decides whether its trace is recorded; where there is none, the share that is traced does.
    """

    def __init__(self, app: App, recorder: Recorder, traced_share: float) -> None:
        self._app = app
        self._recorder = recorder
        self._below = sampling_bound(traced_share)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = _caller(scope)
        own = f"{caller[:36]}{token_hex(8)}{caller[52:]}" if caller else root_traceparent(token_hex(16), self._below)
        if not is_sampled(own):
            await self._within(own, scope, receive, send)
            return
        began, status = time_ns(), [0]

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = int(message["status"])
            await send(message)

        try:
            await self._within(own, scope, receive, answered)
        finally:
            if self._recorder.tracer is not None:
                span_data = _span_data(scope, status[0])
                self._recorder.tracer.note(partial(self._span, own, caller, span_data, Times(began, time_ns())))

    async def _within(self, own: str, scope: Message, receive: Receive, send: Send) -> None:
        token = CALLER.set(own)
        try:
            await self._app(scope, receive, send)
        finally:
            CALLER.reset(token)

    def _span(self, own: str, caller: str | None, span_data: EmittedSpan, times: Times) -> list[ReadableSpan]:
        parent = None if caller is None else context_of(caller)
        named = context_of(own)
        maker = self._recorder.maker
        return [made(within(named, named.span_id), parent, maker.resource(maker.http), span_data, times)]


def metrics_app(text: Callable[[], Awaitable[bytes]], lacks: Callable[[], str]) -> App:
    """Return an ASGI app that has a process's metrics at /metrics, in Prometheus's text format, and its health.

    /healthz is answered as long as it lives; /readyz is 503 while `lacks` returns what it still waits for.
    """

    async def metrics(_: Request) -> Response:
        return Response(await text(), media_type=CONTENT_TYPE_LATEST)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("well\n")

    async def readyz(_: Request) -> Response:
        why = lacks()
        return PlainTextResponse(f"{why or 'ready'}\n", 503 if why else 200)

    return Starlette(routes=[Route(f"/{each.__name__}", each) for each in (metrics, healthz, readyz)])


def _caller(scope: Message) -> str | None:
    for name, value in scope["headers"]:
        if name == b"traceparent":
            text = value.decode("latin-1").strip()
            return text if _TRACEPARENT.fullmatch(text) else None
    return None


def _span_data(scope: Message, status: int) -> EmittedSpan:
    method = str(scope["method"])
    route = getattr(scope.get("route"), "path", "")
    attributes: Attributes = {
        "http.request.method": method,
        "url.path": str(scope["path"]),
        "http.response.status_code": status,
    }
    if route:
        attributes["http.route"] = route
    error = str(status) if status >= _SERVER_ERROR or not status else ""
    return EmittedSpan(f"{method} {route}".strip(), SpanKind.SERVER, attributes, error)
