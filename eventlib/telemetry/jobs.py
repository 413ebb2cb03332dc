"""Spans of batch jobs, and their metrics as a file for Prometheus's textfile collector."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import randbits
from time import time_ns

from eventlib.telemetry.catalogue import METRICS
from eventlib.telemetry.options import telemetry_options


@contextmanager
def job_span(name: str, attributes: dict[str, str | int]) -> Iterator[dict[str, str | int]]:
    """Let what is done in the context be a span of its own trace, if spans go anywhere; add to what is yielded.

    Every job is traced, whatever share of the sagas is. Raises: SettingsError.
    """
    collected = dict(attributes)
    options = telemetry_options()
    if not options.traces:
        yield collected
        return
    from opentelemetry.trace import SpanContext, SpanKind

    from eventlib.telemetry.process import exporter_of
    from eventlib.telemetry.spans import SAMPLED, EmittedSpan, SpanMaker, Times, made

    began, error = time_ns(), ""
    try:
        yield collected
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        context = SpanContext(randbits(128), randbits(64), is_remote=False, trace_flags=SAMPLED)
        resource = SpanMaker("", "analytics").resource("analytics")
        exporter = exporter_of(options.traces_exporter)
        times = Times(began, time_ns())
        exporter.export([made(context, None, resource, EmittedSpan(name, SpanKind.INTERNAL, collected, error), times)])
        exporter.shutdown()


def write_textfile(path: Path, metric: str, values: Mapping[tuple[str, ...], float]) -> None:
    """Write a gauge's values, by its labels; the file is there whole, or as it was before. Raises: OSError."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    declared, registry = METRICS[metric], CollectorRegistry()
    gauge = Gauge(declared.prometheus, declared.description, declared.labels, registry=registry)
    for labels, value in values.items():
        gauge.labels(*labels).set(value)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_to_textfile(str(path), registry)
