"""Figures of a command that ends, as a file for Prometheus's node exporter (its textfile collector)."""

from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from eventlib.telemetry.catalogue import METRICS


def write_textfile(path: Path, metric: str, values: Mapping[tuple[str, ...], float]) -> None:
    """Write a gauge's values, by its labels; the file is there whole, or as it was before. Raises: OSError."""
    declared, registry = METRICS[metric], CollectorRegistry()
    gauge = Gauge(declared.prometheus, declared.description, declared.labels, registry=registry)
    for labels, value in values.items():
        gauge.labels(*labels).set(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_to_textfile(str(path), registry)
