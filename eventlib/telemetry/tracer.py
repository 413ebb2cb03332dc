"""Turns what was noted into spans and exports them, in a thread of its own: the loop only appends to a list."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

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
