"""Clients come in with what the broker for development was told to ask of them, and with nothing else."""

import contextlib
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from eventlib.devtools.kafka import Cluster, ClusterConfig, Sasl, Security, running_cluster, unsigned_token
from eventlib.errors import BrokerFailed
from tests import forked
from tests.saga.shop_runs import EVENTLIB

USERS = {"admin": "admin-secret", "clerk": "clerk-secret"}


class Token(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka brings no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


async def test_plain_over_tls_with_rules_about_who_may_what() -> None:
    security = Security(sasl=Sasl.PLAIN, tls=True, authorize=True, users=USERS)
    with running_cluster(ClusterConfig(security=security)) as cluster:
        await create_topic(cluster, **arguments(cluster, "admin"))
        await send(cluster, **arguments(cluster, "admin"))
        with pytest.raises(KafkaError, match="TopicAuthorizationFailed"):
            await send(cluster, **arguments(cluster, "clerk"))
        with pytest.raises(KafkaError):
            await send(cluster, **{**arguments(cluster, "admin"), "sasl_plain_password": "wrong"})
        with pytest.raises(KafkaError):  # a certificate that nobody has told it to trust
            await send(cluster, **{**arguments(cluster, "admin"), "ssl_context": ssl.create_default_context()})
        with pytest.raises(KafkaError):
            await send(cluster, security_protocol="PLAINTEXT")


async def test_tokens() -> None:
    with running_cluster(ClusterConfig(security=Security(sasl=Sasl.OAUTHBEARER, authorize=True))) as cluster:
        bearer = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
        await create_topic(cluster, **bearer, sasl_oauth_token_provider=Token(unsigned_token("admin")))
        await send(cluster, **bearer, sasl_oauth_token_provider=Token(unsigned_token("admin")))
        with pytest.raises(KafkaError, match="TopicAuthorizationFailed"):
            await send(cluster, **bearer, sasl_oauth_token_provider=Token(unsigned_token("clerk")))
        for worthless in (unsigned_token("admin", lifetime_s=-60), "no token"):
            with pytest.raises(KafkaError):
                await send(cluster, **bearer, sasl_oauth_token_provider=Token(worthless))


async def test_scram_as_the_command_line_says_that_clients_have_to_come(tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path / "broker"))
    with contextlib.ExitStack() as stack:
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
        await create_topic(cluster, **arguments(cluster, "bob"))
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            brought = {**arguments(cluster, "bob"), "sasl_mechanism": mechanism}
            await send(cluster, **brought)
            with pytest.raises(KafkaError):
                await send(cluster, **{**brought, "sasl_plain_password": "wrong"})
    assert not (tmp_path / "broker").exists()
    for wrong, expected in {"--authorize": "without SASL", "--user=a:b": "without --sasl"}.items():
        assert expected in broker_command("start", wrong, *place).stderr


def broker_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run([EVENTLIB, "broker", *arguments], capture_output=True, timeout=300)


def test_security_that_cannot_be_is_refused() -> None:
    with pytest.raises(BrokerFailed, match="without SASL"):
        Security(authorize=True)
    for users in ({}, {"": "a"}, {"a": ""}, {"a": 'b"'}, {"a b": "c"}):
        with pytest.raises(BrokerFailed, match="at least one"):
            Security(users=users)


def arguments(cluster: Cluster, user: str) -> dict[str, Any]:
    """Return aiokafka's arguments for what the cluster says that its clients have to bring."""
    said = cluster.environment(user)
    protocol = cluster.config.security.protocol
    context = ssl.create_default_context(cafile=said["EVENTLIB_KAFKA_TLS_CA"]) if "SSL" in protocol else None
    return {
        "security_protocol": protocol,
        "ssl_context": context,
        "sasl_mechanism": said["EVENTLIB_KAFKA_SASL"],
        "sasl_plain_username": said["EVENTLIB_KAFKA_USER"],
        "sasl_plain_password": said["EVENTLIB_KAFKA_PASSWORD"],
    }


async def create_topic(cluster: Cluster, **brought: Any) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap, **brought)
    await admin.start()
    try:
        await admin.create_topics([NewTopic("secured", num_partitions=1, replication_factor=len(cluster.nodes))])
    finally:
        await admin.close()


async def send(cluster: Cluster, **brought: Any) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, request_timeout_ms=5_000, **brought)
    try:
        await producer.start()
        await producer.send_and_wait("secured", b"secret")
    finally:
        await producer.stop()
