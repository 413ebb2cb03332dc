"""A Kafka log's URL and environment variables as the options of Kafka's own clients."""

from pathlib import Path

from eventlib.errors import WiringError
from eventlib.log.kafka.options import KafkaOptions

_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


def client_options(hosts: list[str], options: KafkaOptions) -> dict[str, str]:
    """Return Spark's options for a consumer. Raises: WiringError when a certificate cannot be read."""
    found = {
        "bootstrap.servers": ",".join(hosts),
        "security.protocol": ("SASL_" if options.sasl else "") + ("SSL" if options.tls else "PLAINTEXT"),
        "isolation.level": "read_committed",
        # The requested records exist already. At its end a consumer fetches more, and a broker that waits the default of 500 ms
        # for them delays the consumer's other requests: Spark makes two for each partition.
        "fetch.max.wait.ms": "10",
        **(_tls(options) if options.tls else {}),
        **(_sasl(options) if options.sasl else {}),
    }
    return {f"kafka.{name}": value for name, value in found.items()}


def _tls(options: KafkaOptions) -> dict[str, str]:
    """Return the TLS options: contents of files, so that executors need none."""
    found = dict[str, str]()
    try:
        if options.tls_ca is not None:
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.certificates"] = Path(options.tls_ca).read_text(encoding="ascii")
        if options.tls_cert is not None and options.tls_key is not None:
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = Path(options.tls_cert).read_text(encoding="ascii")
            found["ssl.keystore.key"] = Path(options.tls_key).read_text(encoding="ascii")
    except (OSError, UnicodeError) as error:
        raise WiringError(f"the certificates of EVENTLIB_KAFKA_TLS_… cannot be used: {error}") from error
    if options.tls_key_password is not None:
        found["ssl.key.password"] = options.tls_key_password.get_secret_value()
    return found


def _sasl(options: KafkaOptions) -> dict[str, str]:
    mechanism: str = options.sasl or ""
    found = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        secret = options.oauth_client_secret
        given = {"clientId": options.oauth_client_id, "clientSecret": secret and secret.get_secret_value()}
        given["scope"] = options.oauth_scope
        found["sasl.oauthbearer.token.endpoint.url"] = options.oauth_token_url or ""
        found["sasl.login.callback.handler.class"] = _HANDLER
    else:
        given = {"username": options.user, "password": options.password and options.password.get_secret_value()}
    words = "".join(f" {name}={_quoted(value)}" for name, value in given.items() if value)
    return {**found, "sasl.jaas.config": f"{_LOGIN[mechanism]} required{words};"}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
