"""PromQL from the catalogue's metrics, so that no expression names what is not there."""

from collections.abc import Sequence

from eventlib.telemetry.catalogue import METRICS


def total(name: str, by: Sequence[str] = (), match: str = "") -> str:
    """Return a gauge's sum over all processes."""
    return f"sum{_by(by)}({METRICS[name].prometheus}{_matching(match)})"


def worst(name: str, by: Sequence[str] = ()) -> str:
    """Return a gauge's largest value of all processes."""
    return f"max{_by(by)}({METRICS[name].prometheus})"


def rate(name: str, by: Sequence[str] = (), *, over: str) -> str:
    """Return how many a second, of a counter or of what a histogram counts."""
    return f"sum{_by(by)}(rate({counted(name)}[{over}]))"


def increase(name: str, by: Sequence[str], over: str, match: str = "") -> str:
    """Return how many in a time, of a counter or of what a histogram counts."""
    return f"sum{_by(by)}(increase({counted(name)}{_matching(match)}[{over}]))"


def quantile(name: str, share: float, by: Sequence[str] = (), *, over: str) -> str:
    """Return what `share` (0 to 1) of a histogram's values did not exceed."""
    buckets = f"{METRICS[name].prometheus}_bucket"
    return f"histogram_quantile({share:g}, sum{_by(['le', *by])}(rate({buckets}[{over}])))"


def counted(name: str) -> str:
    """Return the name of what counts."""
    metric = METRICS[name]
    return f"{metric.prometheus}_count" if metric.kind == "histogram" else metric.prometheus


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""


def _matching(match: str) -> str:
    return f"{{{match}}}" if match else ""
