"""What waiting does not help against ends a start at once, and is told from what is only away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.config import HOST
from eventlib.errors import EventlibError, LogDenied, LogUnavailable, WiringError
from eventlib.log.kafka.log import KafkaLog
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.security import NoToken, connection_arguments
from tests.integration.waiting_processes import served
from tests.ports import free_port
from tests.serving import serving


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
