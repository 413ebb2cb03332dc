"""What stands before every request: the size of its body, and the count of its answer; with figures for Prometheus."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlib.ground.body_limit import bounded
from eventlib.http.problems import Refusal, problem

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """Counts since the process began, in Prometheus's text format, as `<prefix>_<name>_total`.

    Answers are counted as `http_requests_total`, by method, route and status.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._help = dict[str, str]()
        self._counts = Counter[str]()
        self._answers = Counter[tuple[str, str, int]]()
        self._seconds = defaultdict[tuple[str, str], float](float)

    def declare(self, name: str, help_text: str) -> None:
        """Begin a counter at 0."""
        self._help[name], self._counts[name] = help_text, 0

    def count(self, name: str) -> None:
        """Count one. Raises: KeyError for a counter that was not declared."""
        if name not in self._help:
            raise KeyError(f"there is no counter {name!r}: declare it with its help text")
        self._counts[name] += 1

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer, and how long it took."""
        self._answers[method, route, status] += 1
        self._seconds[method, route] += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all figures; `gauges` are (help, value) by name, as of now."""
        lines = list[str]()
        for name, value in self._counts.items():
            full = f"{self._prefix}_{name}_total"
            lines += [f"# HELP {full} {self._help[name]}", f"# TYPE {full} counter", f"{full} {value}"]
        for name, (help_text, number) in gauges.items():
            full = f"{self._prefix}_{name}"
            lines += [f"# HELP {full} {help_text}", f"# TYPE {full} gauge", f"{full} {number:g}"]
        lines += ["# HELP http_requests_total Answers by status.", "# TYPE http_requests_total counter"]
        lines += [
            f'http_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
            for (method, route, status), count in sorted(self._answers.items())
        ]
        lines += ["# HELP http_request_seconds_total Time to answer.", "# TYPE http_request_seconds_total counter"]
        lines += [
            f'http_request_seconds_total{{method="{method}",route="{route}"}} {seconds:.6f}'
            for (method, route), seconds in sorted(self._seconds.items())
        ]
        return "\n".join(lines) + "\n"


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
                await problem(self._refusal(), scope["app"])(scope, receive, answered)
            else:
                await self._app(scope, bounded(receive, self._body_bytes, self._refusal), answered)
        finally:
            # Only names that this app knows, so that no caller can fill the memory with others.
            route = getattr(scope.get("route"), "path", "(none)")
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            self._metrics.answered(method, route, status, perf_counter() - began)

    def _declared(self, scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                return int(value)
        return 0

    def _refusal(self) -> Refusal:
        return Refusal(413, "too-large", f"the body may have at most {self._body_bytes:,} bytes: split the request")
