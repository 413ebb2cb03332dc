"""From a URL and variables to how a Kafka log is reached, or to a sentence that names what is wrong."""

import pytest

from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.errors import WiringError
from eventlib.ground.variables import SettingsError
from eventlib.log.kafka.options import KafkaOptions, parse_url

pytestmark = pytest.mark.usefixtures("no_variables")


def test_a_url_names_brokers_and_options() -> None:
    hosts, options = parse_url("kafka://one:1,two,[::1]:3/?prefix=shop.&replication_factor=3&tls=true")
    assert hosts == ["one:1", "two:9092", "[::1]:3"]
    assert (options.prefix, options.replication_factor, options.tls) == ("shop.", 3, True)


def test_the_url_wins_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PREFIX", "variable.")
    monkeypatch.setenv("EVENTLIB_KAFKA_APPLICATION", "shop")
    assert parse_url("kafka://a")[1].prefix == "variable."
    options = parse_url("kafka://a/?prefix=url.")[1]
    assert (options.prefix, options.application) == ("url.", "shop")


@pytest.mark.parametrize(
    "url", ["kafka://", "kafka:///", "kafka://a,,b", "kafka://user@a", "kafka://a/topic", "kafka://a/#x"]
)
def test_what_is_no_url_of_a_kafka_log(url: str) -> None:
    with pytest.raises(WiringError, match="EVENTLIB_KAFKA_USER" if "@" in url else "kafka://host:port"):
        parse_url(url)


@pytest.mark.parametrize("host", ["a_b c:1", "-a:1", "a:0", "a:65536"])
def test_a_host_or_port_that_cannot_be_one_is_named(host: str) -> None:
    with pytest.raises(WiringError, match=f"names {host}, which is not a valid host and port"):
        parse_url(f"kafka://b,{host}/")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("prefx=a", "unknown option 'prefx'.*prefix"),
        ("password=secret", "EVENTLIB_KAFKA_PASSWORD"),
        ("replication_factor=0", "EVENTLIB_KAFKA_REPLICATION_FACTOR='0'"),
        ("prefix=a b", "EVENTLIB_KAFKA_PREFIX"),
        ("sasl=PLAIN", "EVENTLIB_KAFKA_USER, EVENTLIB_KAFKA_PASSWORD"),
        ("sasl=OAUTHBEARER&oauth_client_id=x", "EVENTLIB_KAFKA_OAUTH_TOKEN_URL, EVENTLIB_KAFKA_OAUTH_CLIENT_SECRET"),
        ("tls_key=x", "tls_cert and tls_key"),
    ],
)
def test_a_wrong_option_is_told_by_its_name(query: str, sentence: str) -> None:
    with pytest.raises(WiringError, match=sentence):
        parse_url(f"kafka://a/?{query}")


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PASSWORD", "hunter2")
    with pytest.raises(SettingsError) as refused:
        parse_url("kafka://a/?sasl=PLAIN")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(KafkaOptions())


def test_variables_of_kafka_are_no_fault_where_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_PREFIX", "shop.")
    eventlib_settings()
    runtime_config()
    monkeypatch.setenv("EVENTLIB_KAFKA_PREFIXX", "shop.")
    with pytest.raises(SettingsError, match="EVENTLIB_KAFKA_PREFIX"):
        eventlib_settings()
