"""The telemetry of one process: what is asked for is made at its start, and ended with it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace.export import SpanExporter

from eventlib.eventlog import EventLog
from eventlib.ground.url import log_file
from eventlib.model.choreography import Choreography
from eventlib.model.sampling import traced_share
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.runtime import Runtime
from eventlib.state.open import stores_beside
from eventlib.telemetry.catalogue import Meter
from eventlib.telemetry.counters import Counters, Snapshot
from eventlib.telemetry.http import App, Traced, metrics_app
from eventlib.telemetry.instruments import Exposition, RuntimeReader
from eventlib.telemetry.options import Exporter, TelemetryOptions
from eventlib.telemetry.recorder import Recorder
from eventlib.telemetry.spans import SpanMaker
from eventlib.telemetry.tracer import Tracer

_ANSWER_BYTES = 65_536


class Telemetry:
    """The telemetry of a process. Give `recorder` to its Runtime and its EventLog as their observer.

    `waits_for` gives what its start waits for, in a sentence; while there is something, the process is not ready.
    """

    def __init__(
        self, choreography: Choreography, log_url: str, exporter: SpanExporter | None, *, metrics: bool
    ) -> None:
        self.waits_for: Callable[[], str] = lambda: ""
        self._tracer = None if exporter is None else Tracer(exporter)
        self._runtime: Runtime | None = None
        self._runtime_reader: RuntimeReader | None = None
        self._exposition: Exposition | None = None
        counters = None
        if metrics:
            counters = Counters(choreography.services)
            reader = self._runtime_reader = RuntimeReader(counters, self._tracer)
            self._exposition = Exposition(choreography, "runtime", reader.snapshot, counters.durations.values())
        system = "kafka" if log_url.startswith("kafka:") else "eventlib"
        self.recorder = Recorder(SpanMaker(system, choreography.name), self._tracer, counters)

    @property
    def metrics(self) -> App:
        """An ASGI app that has the metrics at /metrics."""
        return metrics_app(self.exposition, self._lacks)

    def start(self) -> None:
        """Begin to export."""
        if self._tracer is not None:
            self._tracer.start()

    def flush(self) -> None:
        """Export what was noted so far, now."""
        if self._tracer is not None:
            self._tracer.flush()

    def close(self) -> None:
        """Export what is left."""
        if self._tracer is not None:
            self._tracer.close()

    def observe(self, log: EventLog, runtime: Runtime | None, config: RuntimeConfig) -> None:
        """Tell of a log, and of a runtime on it, which has `recorder` as its observer."""
        log.observer = self.recorder
        self._runtime = runtime
        if self._runtime_reader is not None and runtime is not None:
            self._runtime_reader.run(runtime, places_of(log.port.url, config.state_dir))

    def _lacks(self) -> str:
        """Return what this process is not ready for yet: until its tasks' states are there, others should not stop."""
        if waits_for := self.waits_for():
            return f"waits for {waits_for}"
        if self._runtime is not None and not self._runtime.is_counted:
            return "the others do not know of it yet"
        if self._runtime is not None and (stopped := self._runtime.damage.stopped):
            (service, partition), why = next(iter(stopped.items()))
            return f"{len(stopped)} tasks are stopped by damage, such as {service}/{partition}: {why}"
        restoring = 0 if self._runtime is None else len(self._runtime.restoring)
        return f"{restoring} tasks are being restored" if restoring else ""

    def traced(self, app: Any) -> App:
        """Return an application's ASGI app with spans for its requests, if traces are exported."""
        if self._tracer is None:
            return app  # type: ignore[no-any-return]  # an ASGI app has no class
        return Traced(app, self.recorder, traced_share())

    async def exposition(self) -> bytes:
        """Return the metrics of now, in Prometheus's text format."""
        return b"" if self._exposition is None else await self._exposition.text()


def measured(
    choreography: Choreography, measured_by: Meter, see: Callable[[], Awaitable[Snapshot]], lacks: Callable[[], str]
) -> App:
    """Return an ASGI app that has the metrics of a process without services at /metrics."""
    return metrics_app(Exposition(choreography, measured_by, see).text, lacks)


@contextmanager
def telemetry_of(
    choreography: Choreography, log_url: str, options: TelemetryOptions, *, metrics: bool
) -> Iterator[Telemetry | None]:
    """Give a process its telemetry until the context is left; None when none is wanted."""
    if options.sdk_disabled or not (options.traces or metrics):
        yield None
        return
    exporter = exporter_of(options.traces_exporter) if options.traces else None
    telemetry = Telemetry(choreography, log_url, exporter, metrics=metrics)
    telemetry.start()
    try:
        yield telemetry
    finally:
        telemetry.close()


def exporter_of(kind: Exporter) -> SpanExporter:
    """Return an exporter; that of OTLP takes its settings from OpenTelemetry's variables."""
    if kind == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(session=_session())
    from eventlib.telemetry.tracer import ConsoleExporter

    return ConsoleExporter()


def _session() -> Any:
    """Return a session of what the exporter sends with, that reads the beginning of an answer and inflates nothing."""
    from requests import Response, Session

    def read(answer: Response, **_: object) -> None:
        answer.raw.read(_ANSWER_BYTES, decode_content=False)
        answer.close()

    session = Session()
    session.stream = True
    session.headers["Accept-Encoding"] = "identity"
    session.hooks["response"].append(read)
    return session


def places_of(log_url: str, state_dir: str) -> Mapping[str, Path]:
    """Return what a process keeps on its disk, by the metric of its size."""
    file = log_file(log_url)
    if file is not None:
        return {"eventlib.log.size": file, "eventlib.store.size": stores_beside(file)}
    return {} if log_url.startswith("memory:") else {"eventlib.store.size": Path(state_dir)}
