"""Spans of work that is no saga's: a Spark job, an archive, a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from secrets import randbits
from time import time_ns

from eventlib.telemetry.options import telemetry_options


@contextmanager
def job_span(name: str, attributes: dict[str, str | int]) -> Iterator[dict[str, str | int]]:
    """Let what is done in the context be a span of its own trace, if spans go anywhere; add to what is yielded.

    Every job is traced, whatever share of the sagas is. Raises: SettingsError.
    """
    told = dict(attributes)
    options = telemetry_options()
    if not options.traces:
        yield told
        return
    from opentelemetry.trace import SpanContext, SpanKind

    from eventlib.telemetry.process import exporter_of
    from eventlib.telemetry.spans import SAMPLED, Said, SpanMaker, Times, made

    began, error = time_ns(), ""
    try:
        yield told
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        context = SpanContext(randbits(128), randbits(64), is_remote=False, trace_flags=SAMPLED)
        resource = SpanMaker("", "analytics").resource("analytics")
        exporter = exporter_of(options.traces_exporter)
        times = Times(began, time_ns())
        exporter.export([made(context, None, resource, Said(name, SpanKind.INTERNAL, told, error), times)])
        exporter.shutdown()
