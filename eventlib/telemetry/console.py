"""Spans on stderr, for a person who tries tracing out: each trace as a tree, once it has been quiet for a moment."""

import sys
from collections import defaultdict
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

from eventlib.telemetry.spans import short

_INDENT = "  "


class ConsoleExporter(SpanExporter):
    """Prints what it gets as trees: a trace that goes on later is printed in parts."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Print spans, each below its parent."""
        traces: dict[int, list[ReadableSpan]] = defaultdict(list)
        for span in spans:
            traces[span.context.trace_id].append(span)
        lines = [line for trace_id, found in traces.items() for line in _tree(trace_id, found)]
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """See `SpanExporter.shutdown`."""


def _tree(trace_id: int, spans: list[ReadableSpan]) -> list[str]:
    spans.sort(key=lambda span: span.start_time or 0)
    known = {span.context.span_id for span in spans}
    children: dict[int, list[ReadableSpan]] = defaultdict(list)
    for span in spans:
        parent = span.parent.span_id if span.parent is not None and span.parent.span_id in known else 0
        children[parent].append(span)
    began = spans[0].start_time or 0
    return [f"trace {trace_id:032x}, {len(spans)} spans", *_below(0, 1, children, began)]


def _below(parent: int, depth: int, children: dict[int, list[ReadableSpan]], began: int) -> list[str]:
    found = list[str]()
    for span in children[parent]:
        at, took = ((span.start_time or 0) - began) / 1e6, ((span.end_time or 0) - (span.start_time or 0)) / 1e6
        failed = " ✗" if span.status.status_code is StatusCode.ERROR else ""
        links = f" +{len(span.links)} links" if span.links else ""
        service = str(span.resource.attributes["service.name"])
        what = f"{_INDENT * depth}{span.name} [{service}] {short(span.attributes)}".rstrip()
        found.append(f"{what} +{at:.1f} ms, {took:.1f} ms{links}{failed}")
        found += _below(span.context.span_id, depth + 1, children, began)
    return found
