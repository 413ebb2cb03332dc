"""A few honest figures, in Prometheus's text format: what this process has answered, and how far its index has come."""

from collections import Counter, defaultdict
from collections.abc import Mapping

_HELP = {
    "orders_accepted": "Orders put on the log.",
    "orders_repeated": "Requests for an order that was placed before under the same Idempotency-Key.",
    "cancels_accepted": "Wishes to cancel put on the log.",
    "refused_over_backlog": "Requests refused because too many waited.",
}


class Metrics:
    """Counts since the process began."""

    def __init__(self) -> None:
        self._counts = Counter[str](dict.fromkeys(_HELP, 0))
        self._answers = Counter[tuple[str, str, int]]()
        self._seconds = defaultdict[tuple[str, str], float](float)

    def count(self, name: str) -> None:
        """Count one."""
        self._counts[name] += 1

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer, and how long it took."""
        self._answers[method, route, status] += 1
        self._seconds[method, route] += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all figures; `gauges` are (help, value) by name, as of now."""
        lines = list[str]()
        for name, value in self._counts.items():
            lines += [f"# HELP shop_{name}_total {_HELP[name]}", f"# TYPE shop_{name}_total counter"]
            lines.append(f"shop_{name}_total {value}")
        for name, (help_text, number) in gauges.items():
            lines += [f"# HELP shop_{name} {help_text}", f"# TYPE shop_{name} gauge", f"shop_{name} {number:g}"]
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
