"""What stands before every request: the size of its body, and the count of its answer."""

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlib.http import bounded
from services.order.http.metrics import Metrics
from services.order.http.problems import Refusal, problem

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Limits:
    """Refuses bodies that are too large, as soon as that shows, and counts what is answered."""

    def __init__(self, app: ASGIApp, body_bytes: int, metrics: Metrics) -> None:
        self._app = app
        self._body_bytes = body_bytes
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 500

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if self._declared(scope) > self._body_bytes:
                await problem(self._refusal())(scope, receive, answered)
            else:
                await self._app(scope, bounded(receive, self._body_bytes, self._refusal), answered)
        finally:
            # Only names that this app knows, so that nobody outside can fill the memory with others.
            route = getattr(scope.get("route"), "path", "(none)")
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            self._metrics.answered(method, route, status, perf_counter() - began)

    def _declared(self, scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                return int(value)
        return 0

    def _refusal(self) -> Refusal:
        return Refusal(413, "too-large", f"the body may have at most {self._body_bytes:,} bytes: split the order")
