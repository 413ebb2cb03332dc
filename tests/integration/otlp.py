"""Something that takes spans by OTLP over HTTP, as a collector does: all of them decoded, for tests, or thrown away."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol


class Taking(Protocol):
    """Something that has taken requests with spans: what was sent, by path."""

    bodies: list[tuple[str, bytes]]


class Receiver(ThreadingHTTPServer):
    """Listens on a free port of this machine; `bodies` are what was posted, by path."""

    daemon_threads = True

    def __init__(self, *, keeps: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.keeps = keeps
        self.bodies: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        """What OTEL_EXPORTER_OTLP_ENDPOINT has to be."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        """Take what is sent."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.keeps:
            self.server.bodies.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the class calls it
        """Say nothing."""


@contextmanager
def receiving(*, keeps: bool) -> Iterator[Receiver]:
    """Receive until the context is left."""
    with Receiver(keeps=keeps) as receiver:
        serving = threading.Thread(target=receiver.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            serving.join()


@dataclass(frozen=True)
class Span:
    """A span as it was received."""

    name: str
    service: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    failed: bool
    began_ns: int
    ended_ns: int


def spans_of(receiver: Taking) -> list[Span]:
    """Return the spans that were received, read with OpenTelemetry's own classes."""

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    found = list[Span]()
    for path, body in receiver.bodies:
        assert path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            service = _attributes(of_resource.resource.attributes)["service.name"]
            found += [_span(span, service) for scope in of_resource.scope_spans for span in scope.spans]
    return found


def _span(span: Any, service: str) -> Span:
    from opentelemetry.proto.trace.v1.trace_pb2 import Status

    return Span(
        span.name,
        service,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _attributes(span.attributes),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        span.status.code == Status.STATUS_CODE_ERROR,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
