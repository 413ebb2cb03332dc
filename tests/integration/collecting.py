"""OpenTelemetry's collector, built from its own modules, and something that takes from it by OTLP over gRPC, as Jaeger does."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import grpc  # type: ignore[import-untyped]  # it brings no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceServicer

from tests.ports import free_port
from tests.saga.fleet import is_up

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

SOURCE = Path(__file__).with_name("collector")
DEPLOYED = Path(__file__).parents[2] / "deploy" / "compose" / "collector.yaml"
_LOCAL = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""}
_BUILD_S, _STARTS_S = 1_200, 60


def has_go() -> bool:
    """Tell whether it can be built here: by a Go that is as new as its modules want."""
    if shutil.which("go") is None:
        return False
    wanted = re.search(r"^go (\d+)\.(\d+)", (SOURCE / "go.mod").read_text(encoding="ascii"), re.MULTILINE)
    said = subprocess.run(["go", "version"], env={**os.environ, **_LOCAL}, capture_output=True, text=True, check=False)
    found = re.search(r"go(\d+)\.(\d+)", said.stdout)
    return _numbers(found) >= _numbers(wanted)


def built() -> Path:
    """Return the collector; build it when that was not done yet, from modules that have their pinned sums."""
    files = sorted(SOURCE.iterdir())
    name = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = caches / "eventlib" / f"collector-{name}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_name(f"{program.name}.{os.getpid()}")
        command: list[str | Path] = ["go", "build", "-mod=readonly", "-trimpath", "-o", fresh, "."]
        settings = {**os.environ, **_LOCAL}
        done = subprocess.run(
            command, cwd=SOURCE, env=settings, capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
        assert done.returncode == 0, done.stderr
        fresh.rename(program)
    return program


def validated(*files: Path) -> str:
    """Return what the collector has against a configuration; nothing when that is good."""
    done = subprocess.run([built(), "validate", *_configured(*files)], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr


class Jaeger(TraceServiceServicer):
    """Keeps what it gets, as `otlp.Receiver` does."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []

    def Export(  # noqa: N802  as the protocol names it
        self, request: "ExportTraceServiceRequest", context: grpc.ServicerContext
    ) -> "ExportTraceServiceResponse":
        """Take spans."""

        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        del context
        self.bodies.append(("/v1/traces", request.SerializeToString()))
        return ExportTraceServiceResponse()


@contextmanager
def jaeger() -> Iterator[tuple[Jaeger, str]]:
    """Listen until the context is left; give what has come, and the address."""

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import add_TraceServiceServicer_to_server

    kept, server = Jaeger(), grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(kept, server)  # type: ignore[no-untyped-call]  # generated without types
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield kept, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def collector(directory: Path, to: str) -> Iterator[tuple[str, str]]:
    """Run the deployed configuration, at addresses of this machine, until the context is left.

    What is given is where it takes spans, and where its own metrics are.
    """
    takes, tells = free_port(), free_port()
    reader = f"{{pull: {{exporter: {{prometheus: {{host: 127.0.0.1, port: {tells}}}}}}}}}"
    here = directory / "here.yaml"
    here.write_text(
        f"receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{takes}'}}}}}}}}\n"
        f"exporters: {{otlp: {{endpoint: '{to}'}}}}\n"
        f"service: {{telemetry: {{metrics: {{readers: [{reader}]}}}}}}\n",
        encoding="ascii",
    )
    metrics = f"http://127.0.0.1:{tells}/metrics"
    log = directory / "collector.log"
    with log.open("w") as said:
        process = subprocess.Popen([built(), *_configured(DEPLOYED, here)], stdout=said, stderr=said)
    try:
        deadline = time.monotonic() + _STARTS_S
        while not is_up(metrics):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{takes}", metrics
    finally:
        process.terminate()
        process.wait(120)


def _numbers(found: re.Match[str] | None) -> tuple[int, ...]:
    return () if found is None else tuple(map(int, found.groups()))


def _configured(*files: Path) -> list[str]:
    return [f"--config={file}" for file in files]
