"""What a service needs may be away when it starts: it waits, says for what, and goes on; only a refusal ends it."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import httpx
import pytest
from pydantic import SecretStr

from eventlib import Runtime, RuntimeConfig
from eventlib.cli import run
from eventlib.cli.run_process import Running, Tuning, serve_until
from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.codec.wire_format import FramedCodec
from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.config import HOST
from eventlib.errors import EventlibError, LogDenied, LogUnavailable, WiringError
from eventlib.eventlog import EventLog
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.security import NoToken, connection_arguments
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.operations.startup_waits import waiting_here
from eventlib.runtime.runtime import prepare_own
from eventlib.startup import Startup
from eventlib.telemetry.options import telemetry_options
from services import shop
from tests.contract.registry_servers import listening_registry
from tests.integration.tcp_way import Way
from tests.ports import free_port
from tests.saga.shop_runs import ROOT
from tests.serving import serving

PATIENCE_S = 120.0
SERVICES = [service.name for service in shop.services]
EVENTLIB = (sys.executable, "-m", "eventlib")


@pytest.fixture(scope="module")
def registry() -> Iterator[int]:
    """The port of a registry."""
    with listening_registry(compatibility="NONE") as url:
        yield int(url.rpartition(":")[2])


class Served:
    """`eventlib run` in this process, and what it answers."""

    def __init__(self, url: str, port: int, task: "asyncio.Task[None]", client: httpx.AsyncClient) -> None:
        self.url = url
        self.task = task
        self._at = f"http://{HOST}:{port}"
        self._client = client

    async def answers(self, path: str, status: int, *wanted: str) -> str:
        """Wait until it answers with a status, and with this in it; return the answer."""
        last, deadline = "nothing", time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.task.done():
                self.task.result()
            with contextlib.suppress(httpx.TransportError):
                answer = await self._client.get(self._at + path)
                if answer.status_code == status and all(each in answer.text for each in wanted):
                    return answer.text
                last = f"{answer.status_code} {answer.text}"
            await asyncio.sleep(0.02)
        raise AssertionError(f"{path} does not answer {status} with {wanted}, but {last}")


@asynccontextmanager
async def served(url: str, directory: Path, services: Sequence[str], *, api: bool = False) -> AsyncIterator[Served]:
    stop, port = asyncio.get_running_loop().create_future(), free_port()
    place = f"{HOST}:{port}"
    what = Running(services, http=place if api else None, metrics=None if api else place)
    tuning = Tuning(RuntimeConfig(state_dir=str(directory / "state")), telemetry_options())
    task = asyncio.create_task(serve_until(stop, shop, what, url, tuning))
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            yield Served(url, port, task, client)
        finally:
            stop.set_result(None)
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(task, return_exceptions=True)
    task.result()


def said_of_waiting(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("Waiting for ")]


@pytest.mark.parametrize("services", [[name] for name in SERVICES] + [[]], ids=[*SERVICES, "api"])
async def test_a_registry_may_come_late_and_drop_connections(
    services: list[str],
    registry: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with Way(registry) as way:
        monkeypatch.setenv("EVENTLIB_REGISTRY", f"http://{HOST}:{way.port}")
        monkeypatch.setenv("EVENTLIB_AUTO_REGISTER", "1")
        async with served(url, tmp_path, services, api=not services) as process:
            await process.answers(
                "/readyz", 503, "waits for the log", f"the schema registry at http://{HOST}:{way.port}"
            )
            await process.answers("/healthz", 200)
            (waiting,) = waiting_here(url, str(tmp_path / "state"))
            assert waiting.reason in await process.answers("/readyz", 503, waiting.reason)
            way.drops = 2
            await way.open()
            await process.answers("/readyz", 200)
            assert way.drops == 0
            assert waiting_here(url, str(tmp_path / "state")) == []
    told = capsys.readouterr().err
    assert len(said_of_waiting(told)) == len({*said_of_waiting(told)}) >= 1
    assert "No longer waiting, after" in told
    assert told.endswith("Stopped.\n")


async def test_status_says_which_processes_wait_and_for_what(
    registry: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    async with Way(registry) as way:
        monkeypatch.setenv("EVENTLIB_REGISTRY", f"http://{HOST}:{way.port}")
        async with served(url, tmp_path, ["stock"]) as process:
            await process.answers("/readyz", 503, "the schema registry")
            assert await asyncio.to_thread(run, ["status", "--json", "--log", url]) == 1
            status = json.loads(capsys.readouterr().out)
    assert [each["runs"] for each in status["waiting"]] == ["stock"]
    assert "waits for the log" in status["complaints"][0]
    assert "the schema registry" in status["complaints"][0]
    assert not status["healthy"]


@pytest.mark.parametrize("services", [[name] for name in SERVICES] + [[]], ids=[*SERVICES, "api"])
async def test_a_log_may_be_locked(services: list[str], tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with served(f"sqlite:///{path}", tmp_path, services, api=not services) as process:
            await process.answers("/readyz", 503, f"the log sqlite:///{path}")
            await process.answers("/healthz", 200)
            other.execute("ROLLBACK")
            await process.answers("/readyz", 200)


async def test_tasks_outlive_a_lock_at_their_start(tmp_path: Path) -> None:
    said = list[str]()
    port = await SqliteLog.open(tmp_path / "log.db", options=SqliteOptions(busy_s=0.05))
    log = EventLog(port, FramedCodec(port), shop)
    await log.prepare()
    await prepare_own(log, [shop.service("stock")])
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with Runtime(log, services=["stock"], startup=Startup(said.append)) as runtime:
            await until(lambda: bool(said))
            assert said[0].startswith("Waiting for the tasks of stock: ")
            assert "another process is writing" in said[0]
            other.execute("ROLLBACK")
            async with asyncio.timeout(PATIENCE_S):
                await runtime.idle()
    await port.close()


async def test_the_simulated_outside_may_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.simulation.ledger.BUSY_S", 0.05)
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db.outside.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        async with served(f"sqlite:///{tmp_path}/shop.db", tmp_path, ["payment"]) as process:
            await process.answers("/readyz", 503, "waits for the ports of effects: the ledger ", "is unavailable")
            other.execute("ROLLBACK")
            await process.answers("/readyz", 200)


async def test_a_gateway_and_a_collector_may_be_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = f"http://{HOST}:{free_port()}"
    for name in ("SHOP_GATEWAY_URL", "SHOP_CARRIER_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.setenv(name, nobody)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    async with served(f"sqlite:///{tmp_path}/shop.db", tmp_path, SERVICES) as process:
        await process.answers("/readyz", 200)
    assert said_of_waiting(capsys.readouterr().err) == []


@pytest.mark.parametrize("services", [SERVICES, []], ids=["services", "api"])
async def test_a_broker_may_come_late_and_drop_connections(
    services: list[str], broker: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Way(int(broker.url.rpartition(":")[2])) as way:
        url = f"kafka://{HOST}:{way.port}/?prefix={token_hex(4)}."
        async with served(url, tmp_path, services, api=not services) as process:
            await process.answers("/readyz", 503, "waits for the log kafka://", "no Kafka broker can be reached")
            await process.answers("/healthz", 200)
            way.drops = 3
            await way.open()
            await process.answers("/readyz", 200)
            assert way.drops == 0
    told = capsys.readouterr().err
    assert len(said_of_waiting(told)) == len({*said_of_waiting(told)}) >= 1


async def test_a_process_waits_for_its_registry_and_ends_at_a_signal(registry: int, tmp_path: Path) -> None:
    async with Way(registry) as way:
        late = {"EVENTLIB_REGISTRY": f"http://{HOST}:{way.port}", "EVENTLIB_AUTO_REGISTER": "1"}
        commands = {
            "goes on": (("run", "--http", "0", "--log", f"sqlite:///{tmp_path}/shop.db"), late),
            "stopped": (("run", "--service", "stock", "--log", f"sqlite:///{tmp_path}/other.db"), late),
            "interrupted": (("run", "--workers", "2", "--log", f"kafka://{HOST}:{free_port()}/"), {}),
        }
        async with processes(commands, tmp_path) as started:
            for each in started.values():
                await each.says("Waiting for the log ")
            for name, number in {"stopped": signal.SIGTERM, "interrupted": signal.SIGINT}.items():
                assert await started[name].ended(number) == 0
                assert started[name].said.endswith("Stopped.\n")
            way.drops = 3
            await way.open()
            await started["goes on"].says("Running order")
            assert await started["goes on"].ended(signal.SIGTERM) == 0


@pytest.mark.slow
async def test_whatever_serves_waits_for_its_broker(broker: Cluster, tmp_path: Path) -> None:
    async with Way(int(broker.url.rpartition(":")[2])) as way:
        log = ("--log", f"kafka://{HOST}:{way.port}/?prefix={token_hex(4)}.")
        commands: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
            "schemas of": (("schemas", "serve", "--port", "0", *log), {}),
            "is at http": (("admin", "--http", "0", *log), {"EVENTLIB_ADMIN_TOKEN": "0123456789abcdef"}),
            "Running live views": (("live", "--service", "stock", *log), {}),
        }
        async with processes(commands, tmp_path) as started:
            for each in started.values():
                await each.says("no Kafka broker can be reached")
            way.drops = 3
            await way.open()
            for sentence, process in started.items():
                await process.says(sentence)
                assert await process.ended(signal.SIGTERM) == 0


# --- what waiting does not help against


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """Give the port of what answers everything with these bytes."""

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(answer)
        await writer.drain()

    async with serving(answers) as port:
        yield port


def http(status: str, body: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "scheme", "ends"),
    [
        (http("401 Unauthorized"), "http", "see EVENTLIB_REGISTRY_USER and EVENTLIB_REGISTRY_PASSWORD"),
        (http("200 OK", "<html>"), "http", "is no schema registry"),
        (http("200 OK", "{}"), "https", "does not speak TLS: write http:// in EVENTLIB_REGISTRY"),
        (http("404 Not Found", "404 page not found"), "http", None),
        (http("503 Service Unavailable"), "http", None),
        (http("429 Too Many Requests"), "http", None),
    ],
)
async def test_a_registry_that_refuses_ends_the_start_and_one_that_is_not_there_yet_does_not(
    answer: bytes, scheme: str, ends: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(answer) as port:
        monkeypatch.setenv("EVENTLIB_REGISTRY", f"{scheme}://{HOST}:{port}")
        monkeypatch.setenv("EVENTLIB_AUTO_REGISTER", "1")
        expected = contextlib.nullcontext() if ends is None else pytest.raises(EventlibError, match=ends)
        with expected:
            async with served(f"sqlite:///{tmp_path}/shop.db", tmp_path, ["stock"]) as process:
                await process.answers(
                    "/readyz", 503, f"{scheme}://{HOST}:{port}", "EVENTLIB_REGISTRY" if "page" in str(answer) else ""
                )
                if ends is not None:
                    await process.task


@pytest.mark.parametrize(("status", "refused"), [("401 Unauthorized", True), ("503 Service Unavailable", False)])
async def test_an_identity_provider_that_refuses_is_told_from_one_that_is_away(status: str, refused: bool) -> None:
    async with answering(http(status)) as port:
        options = KafkaOptions(
            sasl="OAUTHBEARER",
            oauth_token_url=f"http://{HOST}:{port}/token",
            oauth_client_id="shop",
            oauth_client_secret=SecretStr("secret"),
        )
        with pytest.raises(NoToken, match="no token from") as none:
            await connection_arguments(options)["sasl_oauth_token_provider"].token()
    assert none.value.refused == refused


async def test_a_broker_that_is_reached_in_the_wrong_way_is_refused_and_one_that_is_away_is_not(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LogUnavailable):
        await KafkaLog.open(f"kafka://{HOST}:{free_port()}")
    with pytest.raises(WiringError, match="which is no valid host and port"):
        await KafkaLog.open("kafka://ka$ka:9092")
    monkeypatch.setenv("EVENTLIB_KAFKA_TLS", "true")
    with pytest.raises(LogDenied, match="does not use TLS: unset EVENTLIB_KAFKA_TLS"):
        await KafkaLog.open(broker.url)


@pytest.mark.parametrize("url", ["http://ho st:8081", "http://a..b", "http://host:99999", "ftp://host"])
def test_a_registry_that_can_be_none_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(WiringError, match="EVENTLIB_REGISTRY is no URL of a registry"):
        RemoteRegistry(url)


# --- processes


class Process:
    """A command, and what it has said on stderr."""

    def __init__(self, process: asyncio.subprocess.Process, diary: Path) -> None:
        self._process = process
        self._diary = diary

    @property
    def said(self) -> str:
        return self._diary.read_text(encoding="utf-8")

    async def says(self, sentence: str) -> None:
        """Wait until it has said something."""
        async with asyncio.timeout(PATIENCE_S):
            while sentence not in self.said:
                assert self._process.returncode is None, self.said
                await asyncio.sleep(0.05)

    async def ended(self, number: signal.Signals) -> int:
        """Send it a signal, and return its exit code."""
        self._process.send_signal(number)
        async with asyncio.timeout(PATIENCE_S):
            return await self._process.wait()

    async def end(self) -> None:
        """Leave nothing behind."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def processes(
    commands: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]], directory: Path
) -> AsyncIterator[dict[str, Process]]:
    """Run commands of `eventlib` by name, each with its own variables."""
    started = dict[str, Process]()
    try:
        for name, (arguments, variables) in commands.items():
            diary = directory / f"{name}.stderr"
            environment = {**os.environ, "EVENTLIB_STATE_DIR": str(directory / "state"), **variables}
            with diary.open("w") as stderr:
                process = await asyncio.create_subprocess_exec(
                    *EVENTLIB, *arguments, env=environment, cwd=ROOT, stderr=stderr, preexec_fn=hears_signals
                )
            started[name] = Process(process, diary)
        yield started
    finally:
        await asyncio.gather(*(each.end() for each in started.values()))


def hears_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # in the background, a shell has it ignored


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)
