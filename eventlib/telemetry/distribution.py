"""How long things took, in buckets: a tenth of what OpenTelemetry's own histogram takes for each value."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import time_ns
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics.export import Metric as Told
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry

from eventlib.telemetry.catalogue import METRICS, Metric
from eventlib.telemetry.look import Labels


class Distribution:
    """A histogram of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._bounds = metric.bounds
        self._began_ns = time_ns()
        self._points: dict[Labels, _Point] = {}

    def add(self, value: float, labels: Labels) -> None:
        """Take a value in."""
        point = self._points.get(labels)
        if point is None:
            point = self._points[labels] = _Point(len(self._bounds) + 1)
        point.buckets[bisect_left(self._bounds, value)] += 1
        point.sum += value

    def told(self) -> Told:
        """Return it as OpenTelemetry has it."""
        now, metric = time_ns(), self._metric
        points = [self._point(labels, point, now) for labels, point in [*self._points.items()]]
        return Told(metric.name, metric.description, metric.unit, Histogram(points, AggregationTemporality.CUMULATIVE))

    def _point(self, labels: Labels, point: "_Point", now: int) -> HistogramDataPoint:
        buckets = [*point.buckets]
        attributes = dict(zip(self._metric.labels, labels, strict=True))
        least, most = float("nan"), float("nan")  # which Prometheus does not ask for
        count = sum(buckets)
        return HistogramDataPoint(attributes, self._began_ns, now, count, point.sum, buckets, self._bounds, least, most)


class _Point:
    __slots__ = ("buckets", "sum")

    def __init__(self, buckets: int) -> None:
        self.buckets = [0] * buckets
        self.sum = 0.0


def distributions() -> dict[str, Distribution]:
    """Return a new histogram for each metric that is one."""
    return {metric.name: Distribution(metric) for metric in METRICS.values() if metric.kind == "histogram"}


class Reader(PrometheusMetricReader):
    """OpenTelemetry's reader for Prometheus, which reads these histograms beside its instruments."""

    def __init__(self, registry: CollectorRegistry, histograms: Mapping[str, Distribution]) -> None:
        super().__init__(scope_info_enabled=False, registry=registry)
        self._histograms = histograms

    def _receive_metrics(self, metrics_data: MetricsData, *arguments: Any, **options: Any) -> None:
        of_process = metrics_data.resource_metrics[0]
        told = ScopeMetrics(InstrumentationScope("eventlib"), _with_points(self._histograms.values()), "")
        scopes = [*of_process.scope_metrics, told]
        super()._receive_metrics(MetricsData([replace(of_process, scope_metrics=scopes)]), *arguments, **options)


def _with_points(histograms: Iterable[Distribution]) -> list[Told]:
    return [told for each in histograms if (told := each.told()).data.data_points]
