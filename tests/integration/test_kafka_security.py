"""A Kafka log among brokers that ask who comes: what lets it in is in the variables, and what keeps it out is said."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex

import pytest

from eventlib.devtools.kafka import Cluster, ClusterConfig, Sasl, Security, running_cluster, unsigned_token
from eventlib.errors import LogDenied, LogUnavailable, WiringError
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms
from tests.paused import paused
from tests.serving import serving

USERS = {"admin": "admin-secret", "clerk": "clerk-secret"}
TOPICS = [Topic("a", partitions=2), Topic("b", partitions=1)]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("EVENTLIB_")]:
        monkeypatch.delenv(variable)


def come_as(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, user: str = "admin", **other: str) -> str:
    for name, value in {**cluster.environment(user), **other}.items():
        monkeypatch.setenv(name, value)
    return f"{cluster.url}/?prefix=p.&request_timeout_s=3"


async def use(url: str) -> None:
    """Create topics, append with and without a transaction and under a claim, and read it all back."""
    log = await KafkaLog.open(url)
    try:
        await log.create_topics(TOPICS)
        await log.append([record("a")])
        await log.append([record("a"), record("b")])
        await log.append([record("a")], await log.seize("s", 0))
        assert len(await log.read("a", 0, 0, 10)) == 3
    finally:
        await log.close()


def record(topic: str) -> Record:
    return Record(topic, 0, -1, now_ms(), b"k", token_hex(2).encode())


async def test_plain_over_tls_with_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    security = Security(sasl=Sasl.PLAIN, tls=True, authorize=True, users=USERS)
    with running_cluster(ClusterConfig(security=security)) as cluster:
        url = come_as(monkeypatch, cluster)
        await use(url)
        await close_while_it_is_silent(url, cluster)
        come_as(monkeypatch, cluster, EVENTLIB_KAFKA_PASSWORD="wrong")  # noqa: S106  it is wrong
        with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_USER"):
            await use(url)
        come_as(monkeypatch, cluster, "clerk")
        with pytest.raises(LogDenied, match="AUTHORIZATION_FAILED"):
            await use(url)
        monkeypatch.delenv("EVENTLIB_KAFKA_TLS_CA")
        with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_TLS_CA"):
            await use(url)
        come_as(monkeypatch, cluster, EVENTLIB_KAFKA_TLS_CA=str(tmp_path / "nothing.pem"))
        with pytest.raises(WiringError, match=r"nothing\.pem"):
            await use(url)
        come_as(monkeypatch, cluster, EVENTLIB_KAFKA_TLS="false")
        with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_TLS"):
            await use(url)


async def close_while_it_is_silent(url: str, cluster: Cluster) -> None:
    """Close a log whose broker does not end its TLS connections: no socket is left of it."""
    before = open_sockets()
    log = await KafkaLog.open(url)
    assert open_sockets() - before
    with paused(cluster):
        await log.close()
        assert open_sockets() <= before


def open_sockets() -> set[str]:
    found = set[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # it was that of this listing
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


async def test_scram(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_cluster(ClusterConfig(security=Security(sasl=Sasl.SCRAM, users=USERS))) as cluster:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            url = come_as(monkeypatch, cluster, EVENTLIB_KAFKA_SASL=mechanism)
            await use(url.replace("prefix=p.", f"prefix={mechanism}."))
            come_as(monkeypatch, cluster, EVENTLIB_KAFKA_SASL=mechanism, EVENTLIB_KAFKA_PASSWORD="wrong")  # noqa: S106  it is wrong
            with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_USER"):
                await use(url)


async def test_tokens_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_cluster(ClusterConfig(security=Security(sasl=Sasl.OAUTHBEARER, authorize=True))) as cluster:
        async with token_server("admin") as (token_url, asked):
            bearer = {
                "EVENTLIB_KAFKA_OAUTH_TOKEN_URL": token_url,
                "EVENTLIB_KAFKA_OAUTH_CLIENT_ID": "shop",
                "EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET": "hush",
                "EVENTLIB_KAFKA_OAUTH_SCOPE": "kafka",
            }
            url = come_as(monkeypatch, cluster, **bearer)
            await use(url)
            assert len(asked) == 1, "a token is good for more than one connection"
            assert "authorization: Basic c2hvcDpodXNo" in asked[0]  # shop:hush
            assert asked[0].endswith("grant_type=client_credentials&scope=kafka")
        with pytest.raises(LogUnavailable, match="no token"):
            await use(url)


@asynccontextmanager
async def token_server(user: str) -> AsyncIterator[tuple[str, list[str]]]:
    """An OAuth server that gives everybody a user's token, and the requests that it has had."""
    asked = list[str]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.lower().splitlines() if line.startswith("content-length")
        )
        asked.append(f"{head}{(await reader.readexactly(length)).decode()}".replace("Authorization:", "authorization:"))
        body = json.dumps({"access_token": unsigned_token(user), "token_type": "bearer", "expires_in": 300})
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode())
        await writer.drain()

    async with serving(answer) as port:
        yield f"http://127.0.0.1:{port}/token", asked
