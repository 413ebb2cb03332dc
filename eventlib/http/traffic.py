"""What stands before every request: the size of its body, and the count of its answer; with figures for Prometheus."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from time import perf_counter

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eventlib.ground.body_limit import bounded
from eventlib.http.front import declared_bytes, too_large
from eventlib.http.problems import problem

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics(Collector):
    """Counts since the process began, in Prometheus's text format, as `<prefix>_<name>_total`.

    Answers are counted as `http_requests_total`, by method, route and status.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._help = dict[str, str]()
        self._counts = Counter[str]()
        self._gauges: Mapping[str, tuple[str, float]] = {}
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
        self._gauges = gauges
        return generate_latest(self).decode()

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        for name, count in self._counts.items():
            yield CounterMetricFamily(f"{self._prefix}_{name}", self._help[name], count)
        for name, (help_text, number) in self._gauges.items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", help_text, number)
        answers = CounterMetricFamily("http_requests", "Answers by status.", labels=("method", "route", "status"))
        for (method, route, status), count in sorted(self._answers.items()):
            answers.add_metric((method, route, str(status)), count)
        seconds = CounterMetricFamily("http_request_seconds", "Time to answer.", labels=("method", "route"))
        for labels, spent in sorted(self._seconds.items()):
            seconds.add_metric(labels, spent)
        yield from (answers, seconds)


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
            if declared_bytes(scope) > self._body_bytes:
                await problem(too_large(self._body_bytes), scope["app"])(scope, receive, answered)
            else:
                small = bounded(receive, self._body_bytes, lambda: too_large(self._body_bytes))
                await self._app(scope, small, answered)
        finally:
            # Only names that this app knows, so that no caller can fill the memory with others.
            route = getattr(scope.get("route"), "path", "(none)")
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            self._metrics.answered(method, route, status, perf_counter() - began)
