"""A password or a token that would leave this machine unencrypted is warned of, once."""

from collections.abc import Callable

import pytest
from pydantic import SecretStr

from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.ground.plaintext import warn_once
from eventlib.http import http_client
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.options import KafkaOptions

USER = ("ann", "s3cret")
PASSWORD = SecretStr("s3cret")


@pytest.fixture(autouse=True)
def _anew() -> None:
    warn_once.cache_clear()


def kafka(host: str, **options: object) -> Callable[[], object]:
    return lambda: Cluster([f"{host}:9092"], KafkaOptions.model_validate(options))


PLAIN = {"sasl": "PLAIN", "user": "ann", "password": PASSWORD}
OAUTH = {
    "sasl": "OAUTHBEARER",
    "oauth_client_id": "ann",
    "oauth_client_secret": PASSWORD,
    "tls": True,
    "oauth_token_url": "http://login.example/token",
}


@pytest.mark.parametrize(
    ("opens", "sentence"),
    [
        (kafka("broker.example", **PLAIN), "EVENTLIB_KAFKA_SASL=PLAIN is sent to broker.example unencrypted"),
        (kafka("192.0.2.1", **PLAIN), "set EVENTLIB_KAFKA_TLS=1"),
        (kafka("broker.example", **OAUTH), "EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET is sent to login.example unencrypted"),
        (lambda: RemoteRegistry("http://registry.example", auth=USER), "EVENTLIB_REGISTRY_PASSWORD is sent to"),
        (lambda: http_client(base_url="http://gateway.example/v1", auth=USER), "a password is sent to gateway.example"),
    ],
)
def test_a_secret_for_another_machine_is_warned_of(
    opens: Callable[[], object], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    opens()
    opens()
    (message,) = caplog.messages
    assert sentence in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    "opens",
    [
        kafka("127.0.0.1", **PLAIN),
        kafka("localhost", **PLAIN),
        kafka("broker.example"),
        kafka("broker.example", **PLAIN, tls=True),
        lambda: RemoteRegistry("http://[::1]:8081", auth=USER),
        lambda: RemoteRegistry("https://registry.example", auth=USER),
        lambda: RemoteRegistry("http://registry.example"),
        lambda: http_client(base_url="https://gateway.example/v1", auth=USER),
    ],
)
def test_what_stays_here_or_is_encrypted_is_not(opens: Callable[[], object], caplog: pytest.LogCaptureFixture) -> None:
    opens()
    assert caplog.messages == []
