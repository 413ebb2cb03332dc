"""A Kafka log and `eventlib doctor` among brokers that ask who comes: what lets a client in, and what keeps it out."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex
from subprocess import CompletedProcess

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from eventlib.devtools.kafka import Cluster, ClusterConfig, Sasl, Security, running_cluster, unsigned_token
from eventlib.errors import BrokerFailed, LogDenied, LogUnavailable, WiringError
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms
from tests import forked
from tests.integration.test_doctor_kafka import Examine, faults
from tests.paused import paused
from tests.saga.shop_runs import EVENTLIB
from tests.serving import serving

USERS = {"admin": "admin-secret", "clerk": "clerk-secret"}
TOPICS = [Topic("a", partitions=2), Topic("b", partitions=1)]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("EVENTLIB_")]:
        monkeypatch.delenv(variable)


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    """A node over TLS, with rules about who may what, that takes passwords as they are and tokens."""
    tokens = Security(sasl=Sasl.OAUTHBEARER).properties(Path())
    tokens["listener.name.client.sasl.enabled.mechanisms"] = "PLAIN,OAUTHBEARER"
    security = Security(sasl=Sasl.PLAIN, tls=True, authorize=True, users=USERS)
    with running_cluster(ClusterConfig(security=security, properties=tokens)) as cluster:
        yield cluster


def come_with(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name in ("TLS", "TLS_CA", "SASL", "USER", "PASSWORD"):
        monkeypatch.delenv(f"EVENTLIB_KAFKA_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def come_as(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, user: str = "admin", **other: str) -> str:
    come_with(monkeypatch, {**cluster.environment(user), **other})
    return f"{cluster.url}/?prefix={token_hex(4)}.&request_timeout_s=3"


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


async def test_plain_over_tls_with_rules(secured: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = come_as(monkeypatch, secured)
    await use(url)
    await close_while_it_is_silent(url, secured)
    come_as(monkeypatch, secured, EVENTLIB_KAFKA_PASSWORD="wrong")  # noqa: S106  it is wrong
    with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_USER"):
        await use(url)
    come_as(monkeypatch, secured, "clerk")
    with pytest.raises(LogDenied, match="AUTHORIZATION_FAILED"):
        await use(url)
    monkeypatch.delenv("EVENTLIB_KAFKA_TLS_CA")
    with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_TLS_CA"):
        await use(url)
    come_as(monkeypatch, secured, EVENTLIB_KAFKA_TLS_CA=str(tmp_path / "nothing.pem"))
    with pytest.raises(WiringError, match=r"nothing\.pem"):
        await use(url)
    come_as(monkeypatch, secured, EVENTLIB_KAFKA_TLS="false")
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


async def test_scram_as_the_command_line_says_that_clients_have_to_come(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = ("--dir", str(tmp_path / "broker"))
    with ExitStack() as stack:
        stack.callback(broker_command, "stop", *place)
        wanted = ("--sasl", "scram", "--tls", "--user", "ada:1815", "--user", "bob:7")
        said = json.loads(broker_command("start", "--port", "0", *wanted, *place, "--json").stdout)
        assert said["environment"] == {
            "EVENTLIB_KAFKA_TLS": "true",
            "EVENTLIB_KAFKA_TLS_CA": str(tmp_path / "broker" / "tls" / "certificate.pem"),
            "EVENTLIB_KAFKA_SASL": "SCRAM-SHA-512",
            "EVENTLIB_KAFKA_USER": "ada",
            "EVENTLIB_KAFKA_PASSWORD": "1815",
        }
        assert broker_command("start", *place).stdout.strip() == said["url"]
        assert "with other options" in broker_command("start", "--sasl", "plain", *place).stderr
        cluster = Cluster.open(tmp_path / "broker")
        assert cluster is not None
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            url = come_as(monkeypatch, cluster, "bob", EVENTLIB_KAFKA_SASL=mechanism)
            await use(url)
            monkeypatch.setenv("EVENTLIB_KAFKA_PASSWORD", "wrong")
            with pytest.raises(LogDenied, match="EVENTLIB_KAFKA_USER"):
                await use(url)
    assert not (tmp_path / "broker").exists()
    for wrong, expected in {"--authorize": "without SASL", "--user=a:b": "without --sasl"}.items():
        assert expected in broker_command("start", wrong, *place).stderr


def broker_command(*arguments: str) -> CompletedProcess[str]:
    return forked.run([EVENTLIB, "broker", *arguments], capture_output=True, timeout=300)


def test_security_that_cannot_be_is_refused() -> None:
    with pytest.raises(BrokerFailed, match="without SASL"):
        Security(authorize=True)
    for users in ({}, {"": "a"}, {"a": ""}, {"a": 'b"'}, {"a b": "c"}):
        with pytest.raises(BrokerFailed, match="at least one"):
            Security(users=users)


async def test_tokens_of_a_server(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async with token_server("admin") as (token_url, asked):
        bearer = {
            "EVENTLIB_KAFKA_SASL": "OAUTHBEARER",
            "EVENTLIB_KAFKA_OAUTH_TOKEN_URL": token_url,
            "EVENTLIB_KAFKA_OAUTH_CLIENT_ID": "shop",
            "EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET": "hush",
            "EVENTLIB_KAFKA_OAUTH_SCOPE": "kafka",
        }
        url = come_as(monkeypatch, secured, **bearer)
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


class Token(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka brings no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


async def test_a_token_is_good_for_its_user_and_until_its_end(
    secured: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = come_as(monkeypatch, secured)
    await use(url)
    topic = f"{url.partition('prefix=')[2].partition('&')[0]}a"
    await send_with(secured, topic, unsigned_token("admin"))
    with pytest.raises(KafkaError, match="TopicAuthorizationFailed"):
        await send_with(secured, topic, unsigned_token("clerk"))
    for worthless in (unsigned_token("admin", lifetime_s=-60), "no token"):
        with pytest.raises(KafkaError):
            await send_with(secured, topic, worthless)


async def send_with(cluster: Cluster, topic: str, token: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        request_timeout_ms=5_000,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=cluster.environment("admin")["EVENTLIB_KAFKA_TLS_CA"]),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Token(token),
    )
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"secret")
    finally:
        await producer.stop()


def test_coming_in_the_wrong_way(secured: Cluster, examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    right = secured.environment("admin")
    for wrong, expected in (
        ({"TLS": "false"}, "requires TLS"),
        ({"TLS_CA": ""}, "is not trusted by the system's authorities"),
        ({"PASSWORD": "wrong"}, "refuses user admin with PLAIN"),
        ({"SASL": "SCRAM-SHA-256"}, "does not support the SASL mechanism SCRAM-SHA-256, but OAUTHBEARER, PLAIN"),
        ({"SASL": "", "USER": "", "PASSWORD": ""}, "requires a sign-in"),
    ):
        come_with(monkeypatch, right | {f"EVENTLIB_KAFKA_{name}": value for name, value in wrong.items()})
        (found, *_) = examine(secured.url)
        assert (found["check"], found["verdict"]) == ("brokers", "error")
        assert expected in found["what"]
        assert "EVENTLIB_KAFKA_" in found["remedy"]


def test_tls_and_users_where_there_are_none(
    broker: Cluster, secured: Cluster, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    come_with(monkeypatch, secured.environment("admin"))
    assert "does not use TLS" in examine(broker.url)[0]["what"]
    come_with(monkeypatch, secured.environment("admin") | {"EVENTLIB_KAFKA_TLS": "false"})
    assert "accepts no sign-in" in examine(broker.url)[0]["what"]
    no_server = {"EVENTLIB_KAFKA_OAUTH_TOKEN_URL": "http://127.0.0.1:1/token", "EVENTLIB_KAFKA_OAUTH_CLIENT_ID": "a"}
    oauth = no_server | {"EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET": "b", "EVENTLIB_KAFKA_SASL": "OAUTHBEARER"}
    come_with(monkeypatch, secured.environment("admin") | oauth)
    assert "no token from http://127.0.0.1:1/token" in examine(secured.url)[0]["what"]


def test_rights_that_are_missing(secured: Cluster, examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    come_with(monkeypatch, secured.environment("clerk"))
    found = examine(secured.url)
    said = [each["what"] for each in found if each["check"] == "rights"]
    assert any("user clerk may not see" in each for each in said)
    assert any("user clerk may not join eventlib.order" in each for each in said)
    assert any("user clerk may not run transactions under eventlib…" in each for each in said)
    of_views = [each for each in found if each["what"].startswith("live views of payment would not run:")]
    assert {each["verdict"] for each in of_views} == {"warning"}, "whoever runs services can do without"
    assert any("user clerk may not join eventlib.payment.live" in each["what"] for each in of_views)
    remedies = [each["remedy"] for each in found if each["check"] == "rights"]
    assert any("--allow-principal 'User:clerk' --operation Read --group eventlib.order" in each for each in remedies)
    come_with(monkeypatch, secured.environment("admin"))
    assert faults(examine(secured.url)) == []
