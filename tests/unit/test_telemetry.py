"""Telemetry's parts by themselves: sampling, settings, logs, and a tracer whose exporter fails."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace.export import SpanExporter

from eventlib.errors import WiringError
from eventlib.eventlog import CALLER, SAGA
from eventlib.ground.variables import SettingsError
from eventlib.model.identity import child_traceparent, derived_id, is_sampled, root_traceparent, sampling_bound
from eventlib.model.sampling import traced_share
from eventlib.telemetry.jobs import job_span, write_textfile
from eventlib.telemetry.logs import JsonFormatter, TextFormatter
from eventlib.telemetry.options import telemetry_options
from tests.integration.otlp import receiving, spans_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult


pytestmark = pytest.mark.usefixtures("no_variables")


@pytest.mark.parametrize("share", [0, 0.02, 0.3, 0.999, 1])
def test_a_saga_is_traced_when_opentelemetrys_own_sampler_says_so(share: float) -> None:
    from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

    sampler, bound = TraceIdRatioBased(share), sampling_bound(share)
    for number in range(2_000):
        event_id = derived_id("x", "d", "k", number)
        theirs = sampler.should_sample(None, int(event_id, 16), "").decision is Decision.RECORD_AND_SAMPLE
        assert is_sampled(root_traceparent(event_id, bound)) == theirs


def test_what_follows_goes_by_its_root() -> None:
    traced = root_traceparent("a" * 32, sampling_bound(1))
    untraced = root_traceparent("a" * 32, sampling_bound(0))
    child = child_traceparent(traced, "b" * 32)
    assert child == f"00-{'a' * 32}-{'b' * 16}-01"
    assert (is_sampled(child), is_sampled(child_traceparent(untraced, "b" * 32)), is_sampled(None)) == (
        True,
        False,
        False,
    )
    assert is_sampled(traced[:-2] + "03")  # the flag of a later version beside it


def test_the_share_is_set_by_opentelemetrys_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    monkeypatch.setenv("OTEL_SOMETHING_ELSE", "is for others")
    assert traced_share() == 0.25
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    assert traced_share() == 0
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    with pytest.raises(SettingsError, match="OTEL_TRACES_SAMPLER='always_on': expected 'parentbased_traceidratio'"):
        traced_share()


def test_nothing_is_told_unless_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (telemetry_options().traces, telemetry_options().metrics_place) == (False, None)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "9464")
    assert (telemetry_options().traces, telemetry_options().metrics_place) == (True, "127.0.0.1:9464")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert (telemetry_options().traces, telemetry_options().metrics_place) == (False, None)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(SettingsError, match="OTEL_TRACES_EXPORTER='zipkin'"):
        telemetry_options()


def test_a_line_of_the_log_names_the_saga_that_it_is_about() -> None:
    record = logging.LogRecord("eventlib.x", logging.WARNING, "f.py", 1, "port %s is away", ("gateway",), None)
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "eventlib.x", "port gateway is away")
    assert "trace_id" not in line
    caller, saga = CALLER.set(root_traceparent("ab" * 16)), SAGA.set("order-1's")
    try:
        line = json.loads(JsonFormatter().format(record))
    finally:
        CALLER.reset(caller)
        SAGA.reset(saga)
    assert (line["trace_id"], line["span_id"], line["correlation_id"]) == ("ab" * 16, "ab" * 8, "order-1's")


def test_an_error_is_in_the_same_line() -> None:
    with pytest.raises(ValueError, match="two") as caught:
        raise_two_lines()
    found = (caught.type, caught.value, caught.tb)
    text = JsonFormatter().format(logging.LogRecord("x", logging.ERROR, "f.py", 1, "failed", (), found))
    assert "\n" not in text
    assert "ValueError: two\nlines" in json.loads(text)["exception"]


def test_our_errors_have_no_traceback_and_others_do() -> None:
    def said(error: Exception) -> str:
        found = (type(error), error, None)
        return TextFormatter("%(message)s").format(
            logging.LogRecord("x", logging.ERROR, "f.py", 1, "failed", (), found)
        )

    assert said(WiringError("give a log")) == "failed"
    assert said(ValueError("two")) == "failed\nValueError: two"


def raise_two_lines() -> None:
    raise ValueError("two\nlines")


class Exporter(SpanExporter):
    def __init__(self, *results: "SpanExportResult") -> None:
        from opentelemetry.sdk.trace import ReadableSpan

        self.got = list[ReadableSpan]()
        self._results = [*results]

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        from opentelemetry.sdk.trace.export import SpanExportResult

        result = self._results.pop(0) if self._results else SpanExportResult.SUCCESS
        if result is SpanExportResult.SUCCESS:
            self.got += spans
        return result


def span(number: int) -> "ReadableSpan":
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import SpanKind

    from eventlib.telemetry.spans import EmittedSpan, Times, context_of, made

    context = context_of(root_traceparent(f"{number + 1:032x}", sampling_bound(1)))
    return made(context, None, Resource({}), EmittedSpan("x", SpanKind.INTERNAL, {}), Times(2, 1))


def test_what_cannot_be_exported_is_counted_and_the_rest_goes_on() -> None:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult

    from eventlib.telemetry.tracer import Tracer

    exporter = Exporter(SpanExportResult.FAILURE)
    tracer = Tracer(exporter, pause_s=60)
    tracer.start()

    def broken() -> list[ReadableSpan]:
        raise ValueError("no span")

    tracer.note(lambda: [span(1), span(2)])
    tracer.flush()
    tracer.note(broken)
    tracer.note(lambda: [span(3)])
    tracer.close()
    assert ([each.context.span_id for each in exporter.got], tracer.exported, tracer.dropped) == ([0], 1, 3)
    assert exporter.got[0].end_time == 2  # never before it began


def test_there_is_room_for_so_many_and_the_loop_never_waits() -> None:
    from eventlib.telemetry.tracer import Tracer

    tracer = Tracer(Exporter(), pause_s=60)
    for number in range(50_003):
        tracer.note(lambda number=number: [span(number)])  # type: ignore[misc]  # mypy sees no default of a lambda
    assert tracer.dropped == 3


def job_that_fails() -> None:
    with job_span("analytics audit", {"eventlib.log": "sqlite:///x"}) as told:
        told["eventlib.errors"] = 2
        raise OSError("disk")


def test_a_job_is_a_span_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving(keeps=True) as receiver:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        with pytest.raises(OSError, match="disk"):
            job_that_fails()
    (job,) = spans_of(receiver)
    assert (job.name, job.service, job.parent_id, job.failed) == ("analytics audit", "analytics", "", True)
    assert job.attributes == {"eventlib.log": "sqlite:///x", "eventlib.errors": 2, "error.type": "OSError"}


def test_the_audit_leaves_a_file_that_prometheus_reads(tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    path = tmp_path / "textfiles" / "laws.prom"
    write_textfile(path, "eventlib.laws.broken", {("stock is conserved",): 2, ("once",): 0})
    (family,) = text_string_to_metric_families(path.read_text())
    found = {sample.labels["law"]: sample.value for sample in family.samples}
    assert (family.name, found) == ("eventlib_laws_broken", {"stock is conserved": 2, "once": 0})
