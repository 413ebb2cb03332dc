"""`eventlib live` as a process that is asked over HTTP, and may be killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import httpx

from tests import forked
from tests.integration.live_answers import ANSWERS, Answer, History, as_answer
from tests.ports import free_port
from tests.saga.shop_runs import EVENTLIB, ROOT

SERVICES = ("order", "stock", "payment", "dispatch")
PATIENCE_S = 240.0
_LOOK_S = 0.5


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class LiveWorker:
    """A worker with the views of some services, at ports in a row."""

    def __init__(
        self,
        url: str,
        directory: Path,
        *services: str,
        longest_s: float = PATIENCE_S,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.url = url
        self._services = services or SERVICES
        self._port = free_port(len(self._services))
        self._longest_s = longest_s
        own = {"EVENTLIB_LOG": url, "EVENTLIB_STATE_DIR": str(directory)}
        self._environment = {**os.environ, **own, **environment}
        self._metrics_port = free_port()
        self._environment.setdefault("OTEL_EXPORTER_PROMETHEUS_PORT", str(self._metrics_port))
        self._diary = directory / f"live-{self._port}.stderr"
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(timeout=20, trust_env=False)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""
        self._client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def start(self, *command: str) -> None:
        """Start it, or start it again."""
        only = [option for name in self._services for option in ("--service", name)]
        own = command or (EVENTLIB, "live", "--http", str(self._port), *only)
        with self._diary.open("a") as diary:
            self._process = forked.Popen(own, cwd=ROOT, env=self._environment, stdout=diary, stderr=diary, text=True)

    def start_by_faust(self, service: str) -> None:
        """Start one service's views as Faust's own command does."""
        web = ("--web-port", str(self._port), "--web-host", "127.0.0.1")
        self.start(sys.executable, "-m", "faust", "-A", f"services.{service}.views", "worker", "-l", "warn", *web)

    def kill(self) -> None:
        """End it as an accident does."""
        assert self._process is not None
        assert self._process.poll() is None, self.diary
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it in the midst of what it does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it as a person does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=120) in {0, -signal.SIGTERM}, self.diary
        self._process = None

    @property
    def diary(self) -> str:
        """What it has written."""
        return self._diary.read_text(encoding="utf-8")

    def ask(self, service: str, view: str, **query: str) -> dict[str, Any] | None:
        """Return what it answers; None while it cannot."""
        port = self._port + self._services.index(service)
        try:
            answer = self._client.get(f"http://127.0.0.1:{port}/views/{view}", params=query)
        except httpx.HTTPError:
            return None
        if answer.status_code in {503, 500}:
            return None
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def lost(self, service: str) -> list[str]:
        """Return what it says it has lost of its inputs; nothing while it does not answer."""
        port = self._port + self._services.index(service)
        try:
            found: list[str] = self._client.get(f"http://127.0.0.1:{port}/views").json()["lost"]
        except httpx.HTTPError:
            return []
        return found

    def samples(self) -> Samples:
        """Return its metrics, as Prometheus reads them; none while it starts."""

        from prometheus_client.parser import text_string_to_metric_families

        try:
            answer = self._client.get(f"http://127.0.0.1:{self._metrics_port}/metrics")
        except httpx.ConnectError:
            return {}
        assert answer.status_code == 200
        families = text_string_to_metric_families(answer.text)
        return {
            (each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples
        }

    def partitions(self) -> set[tuple[str, str]]:
        """Return the partitions (topic, number) that it has of what its views read; none while it is not ready."""
        try:
            ready = self._client.get(f"http://127.0.0.1:{self._metrics_port}/readyz").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return set()
        lags = (dict(labels) for name, labels in self.samples() if name == "eventlib_live_lag")
        return {(each["topic"], each["partition"]) for each in lags if ready}

    def rows(self, service: str, view: str) -> Answer | None:
        """Return all rows of a view; None while it cannot tell them all."""
        found = self.ask(service, view)
        return None if found is None else as_answer(found["rows"])

    def wait(self, until: Callable[[], bool], what: str) -> None:
        """Wait for something."""
        deadline = time.monotonic() + self._longest_s
        while not until():
            assert self._process is None or self._process.poll() is None, self.diary
            assert time.monotonic() < deadline, f"{what} does not come; it wrote: {self.diary}"
            time.sleep(_LOOK_S)

    def check(self, history: History) -> None:
        """Hold every view of this worker against its independent computation."""
        for (service, view), compute in ANSWERS.items():
            if service not in self._services:
                continue
            found, wanted = self.ask(service, view), compute(history)
            assert found is not None
            rows, late = wanted if isinstance(wanted, tuple) else (wanted, 0)
            assert as_answer(found["rows"]) == rows, view
            assert found["late"] == late, view
            print(service, view, len(rows), late)


def reset(
    url: str, directory: Path, service: str, environment: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.CompletedProcess[str]":
    """Have a service's views begin anew, as a person does."""
    command = [EVENTLIB, "live", "reset", "--service", service, "--yes", "--log", url]
    own = {**os.environ, "EVENTLIB_STATE_DIR": str(directory), **environment}
    return forked.run(command, cwd=ROOT, env=own, capture_output=True)
