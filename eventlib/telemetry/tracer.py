"""Exports spans in a thread of its own, or prints them on stderr as trees."""

import logging
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

from eventlib.telemetry.spans import short

_log = logging.getLogger(__name__)

Note = Callable[[], Sequence[ReadableSpan]]
"""Something that was noted, and can be made into spans."""

_MOST_NOTES = 50_000
_BATCH = 512
_PAUSE_S = 1.0


class Tracer:
    """Exports spans in batches.

    Guarantee: noting something never waits and never fails; what does not fit is dropped and counted in `dropped`.
    """

    def __init__(self, exporter: SpanExporter, pause_s: float = _PAUSE_S) -> None:
        self.exporter = exporter
        self.exported = 0
        self.dropped = 0
        self._pause_s = pause_s
        self._notes: deque[Note] = deque()
        self._ends = threading.Event()
        self._exporting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Begin to export."""
        self._thread.start()

    def note(self, note: Note) -> None:
        """Leave something to be made into spans."""
        if len(self._notes) >= _MOST_NOTES:
            self.dropped += 1
        else:
            self._notes.append(note)

    def flush(self) -> None:
        """Export what was noted so far, now."""
        with self._exporting:
            self._export_all()

    def close(self) -> None:
        """Export what is left, and end."""
        self._ends.set()
        self._thread.join()
        self.flush()
        self.exporter.shutdown()

    def _run(self) -> None:
        while not self._ends.wait(self._pause_s):
            self.flush()

    def _export_all(self) -> None:
        batch = list[ReadableSpan]()
        for note in self._taken():
            try:
                batch += note()
            except Exception:  # noqa: BLE001  a span that cannot be made is one less
                _log.exception("something that was noted could not be made into spans")
                self.dropped += 1
            if len(batch) >= _BATCH:
                self._export(batch)
                batch = []
        if batch:
            self._export(batch)

    def _taken(self) -> Iterator[Note]:
        for _ in range(len(self._notes)):
            yield self._notes.popleft()

    def _export(self, spans: Sequence[ReadableSpan]) -> None:
        if self.exporter.export(spans) is SpanExportResult.SUCCESS:
            self.exported += len(spans)
        else:
            self.dropped += len(spans)


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
