"""A start waits for dependencies that are away, and ends at once where waiting does not help."""

import asyncio
import contextlib
import json
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest
from pydantic import SecretStr

from eventlib import Runtime
from eventlib.cli import run
from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.codec.wire_format import FramedCodec
from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.config import HOST
from eventlib.errors import EventlibError, LogDenied, LogUnavailable, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.security import NoToken, connection_arguments
from eventlib.log.sqlite.log import SqliteLog
from eventlib.log.sqlite.state import SqliteOptions
from eventlib.operations.startup_waits import waiting_here
from eventlib.runtime.runtime import prepare_own
from services import shop
from tests.contract.registry_servers import listening_registry
from tests.integration.tcp_way import Way
from tests.integration.waiting_processes import PATIENCE_S, processes, said_of_waiting, served
from tests.ports import free_port
from tests.serving import serving
from tests.waiting import until

SERVICES = [service.name for service in shop.services]
FIRST, *OTHERS = SERVICES
EACH_PROCESS = pytest.mark.parametrize(
    "services",
    [
        pytest.param([FIRST], id=FIRST),
        *(pytest.param([name], id=name, marks=pytest.mark.extended) for name in OTHERS),
        pytest.param([], id="api"),
    ],
)
"""Of processes that run one service each, and differ by that alone, one is enough but for the long run."""


@pytest.fixture(scope="module")
def registry() -> Iterator[int]:
    """The port of a registry."""
    with listening_registry(compatibility="NONE") as url:
        yield int(url.rpartition(":")[2])


@EACH_PROCESS
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


@EACH_PROCESS
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
    with pytest.raises(WiringError, match="which is not a valid host and port"):
        await KafkaLog.open("kafka://ka$ka:9092")
    monkeypatch.setenv("EVENTLIB_KAFKA_TLS", "true")
    with pytest.raises(LogDenied, match="does not use TLS: unset EVENTLIB_KAFKA_TLS"):
        await KafkaLog.open(broker.url)


@pytest.mark.parametrize("url", ["http://ho st:8081", "http://a..b", "http://host:99999", "ftp://host"])
def test_a_registry_that_can_be_none_is_a_wrong_setting(url: str) -> None:
    with pytest.raises(WiringError, match="EVENTLIB_REGISTRY is no URL of a registry"):
        RemoteRegistry(url)
