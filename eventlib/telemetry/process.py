"""The telemetry of one process: what is asked for is made at its start, and ended with it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from eventlib.eventlog import EventLog
from eventlib.ground.url import log_file
from eventlib.model.choreography import Choreography
from eventlib.model.sampling import traced_share
from eventlib.runtime.config import RuntimeConfig
from eventlib.runtime.runtime import Runtime
from eventlib.state.open import stores_beside
from eventlib.telemetry.catalogue import Meter
from eventlib.telemetry.counters import Counters, Reader, Snapshot
from eventlib.telemetry.http import App, Measured, Traced
from eventlib.telemetry.instruments import Instruments, RuntimeReader
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
        self._registry = CollectorRegistry()
        self._tracer = None if exporter is None else Tracer(exporter)
        self._instruments: Instruments | None = None
        self._runtime_reader: RuntimeReader | None = None
        self._runtime: Runtime | None = None
        counters = None
        if metrics:
            counters = Counters(choreography.services)
            reader = Reader(self._registry, counters.durations)
            self._runtime_reader = RuntimeReader(counters, self._tracer)
            self._instruments = Instruments(reader, _resource(choreography), "runtime", self._runtime_reader.snapshot)
        system = "kafka" if log_url.startswith("kafka:") else "eventlib"
        self.recorder = Recorder(SpanMaker(system, choreography.name), self._tracer, counters)

    @property
    def metrics(self) -> App:
        """An ASGI app that has the metrics at /metrics."""
        return Measured(self.exposition, self._lacks)

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
        if self._instruments is not None:
            self._instruments.close()

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
        if self._instruments is not None:
            await self._instruments.refresh()
        return generate_latest(self._registry)


@contextmanager
def measured(
    choreography: Choreography, measured_by: Meter, see: Callable[[], Awaitable[Snapshot]], lacks: Callable[[], str]
) -> Iterator[App]:
    """Give a process that runs no services an ASGI app that has their metrics at /metrics, until the context is left."""
    registry = CollectorRegistry()
    instruments = Instruments(Reader(registry, {}), _resource(choreography), measured_by, see)

    async def exposition() -> bytes:
        await instruments.refresh()
        return generate_latest(registry)

    try:
        yield Measured(exposition, lacks)
    finally:
        instruments.close()


def _resource(choreography: Choreography) -> Resource:
    return Resource.create({"service.name": choreography.name})


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
